#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "streams/attendant.hpp"
#include "talk/secrecy.hpp"
#include "wire/region.hpp"

namespace isthmus::mpiexec {

/// What the head of a job and its agents, one on each host, tell each other. An agent opens the connection,
/// the head answers who has the job's key (`secrecy.hpp`), and frames follow: a frame's length without itself
/// (4 bytes, all that is in clear), then, encrypted and sealed, its kind (1 byte) and its body, packed. The
/// key does not travel. Who listens on the network learns when how much is said, and a frame that somebody
/// else writes, changes, repeats, leaves out, or has heard on another connection ends the connection.
enum class FrameKind : std::uint8_t {
  hello = 1,     ///< agent: Hello
  order = 2,     ///< head: Order
  refusal = 3,   ///< agent: exit status, sentence: it cannot start its ranks
  started = 4,   ///< agent: all its ranks run
  beat = 5,      ///< both, once a second
  barrier = 6,   ///< agent: all its ranks are in a barrier; keys and values that they have put since the last
  released = 7,  ///< head: all ranks are; keys and values of all
  signal = 8,    ///< head: number of a signal for the ranks
  failure = 9,   ///< agent: Failure: the first of its ranks
  end = 10,      ///< head: 1 if at leisure (a rank failed after MPI_Finalize): end the ranks
  kill = 11,     ///< head
  finished = 12,  ///< agent: no rank is left; it waits for the head to part
  died = 13,      ///< head: number of a rank of another host, which the others outlive
  look = 14,      ///< head: number of the question: what do the ranks there do
  seen = 15,      ///< agent: the same number, `stuck::pack`
  traced = 16     ///< agent: a rank that has ended, and a piece of what it has written of itself
};

struct Frame {
  FrameKind kind;
  std::string body;
};

/// A side that has not been heard of for so long is given up.
inline constexpr auto longest_silence = std::chrono::seconds(7);

/// A TCP connection that carries frames. Never blocks.
class Link {
 public:
  /// Frames longer than `longest` end the connection, and so do those without a seal. The head's end.
  Link(UniqueFd socket, std::size_t longest, const wire::JobKey& key);
  /// The end of the agent on that host.
  Link(UniqueFd socket, std::size_t longest, const wire::JobKey& key, std::uint32_t host);

  void send(FrameKind kind, std::string_view body = {});
  /// Reads and writes what can be now, with a beat where one is due.
  void pump();
  /// Without beats: all that somebody gets who has not said hello is the answer to an opening with proof.
  void listen();
  /// Says that nothing more will come. The side that has the last word waits for the other's parting: were it
  /// to go with something unread, its kernel would take back what the line has lost so far.
  void part();
  /// This process has not listened for a while.
  void forgive_silence() { heard_ = Clock::now(); }
  /// The next frame that has arrived whole; beats are not shown.
  std::optional<Frame> next();
  /// Which of the job's hosts the agent has opened the connection for.
  [[nodiscard]] std::uint32_t host() const noexcept { return opening_.host; }
  void allow(std::size_t longest) { longest_ = longest; }

  /// The other side has ended the connection, or has broken its rules.
  [[nodiscard]] bool closed() const noexcept { return closed_; }
  [[nodiscard]] bool silent() const { return Clock::now() - heard_ > longest_silence; }
  /// What has been sent is on its way.
  [[nodiscard]] bool is_idle() const noexcept { return unsent_.empty(); }

  void prepare(std::vector<pollfd>& waited_for) const;
  [[nodiscard]] Clock::time_point deadline() const { return next_beat_; }

 private:
  void set_up();
  void read();
  void write();
  void give_up();
  void put(std::string_view said);
  /// Whether both sides' streams have begun.
  bool greet();
  bool hear_opening();
  bool hear_answer();
  /// The first `bytes` that have been received; nothing before all of them are there.
  std::optional<std::string> take(std::size_t bytes);

  UniqueFd socket_;
  std::size_t longest_;
  wire::JobKey key_;
  Side own_;
  Opening opening_{};
  std::optional<Secrecy> secrecy_;      ///< once both nonces are known
  bool heard_header_ = false;           ///< of the other side's stream
  std::vector<std::string> too_early_;  ///< frames that wait for `secrecy_`
  std::string received_, unsent_;
  Clock::time_point heard_ = Clock::now();
  Clock::time_point next_beat_ = Clock::now();
  bool closed_ = false;
  bool parted_ = false;
};

}  // namespace isthmus::mpiexec
