#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "attendant.hpp"
#include "base/unique_fd.hpp"
#include "wire/region.hpp"

namespace isthmus::mpiexec {

/// What the head of a job and its agents, one on each host, tell each other. A frame is its length without
/// itself (4 bytes), its kind (1 byte), its body, packed, and its seal (8 bytes): the hash, under the job's
/// key, of the speaker's side, the frame's number among those that it has sent, kind and body. So the key
/// does not travel, and a frame that somebody without it writes, changes, repeats or leaves out ends the
/// connection. Who listens on the network can read what is said.
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
  finished = 12  ///< agent: no rank is left; it waits for the head to part
};

/// Who speaks on a connection.
enum class Side : std::uint8_t { head, agent };

struct Frame {
  FrameKind kind;
  std::string body;
};

/// A side that has not been heard of for so long is given up.
inline constexpr auto longest_silence = std::chrono::seconds(7);

/// A TCP connection that carries frames. Never blocks.
class Link {
 public:
  /// Frames longer than `longest` end the connection, and so do those without a seal.
  Link(UniqueFd socket, std::size_t longest, const wire::JobKey& key, Side own);

  void send(FrameKind kind, std::string_view body = {});
  /// Reads and writes what can be now, with a beat where one is due.
  void pump();
  /// Reads only: nothing goes to a stranger.
  void listen();
  /// Says that nothing more will come. The side that has the last word waits for the other's parting: were it
  /// to go with something unread, its kernel would take back what the line has lost so far.
  void part();
  /// This process has not listened for a while.
  void forgive_silence() { heard_ = Clock::now(); }
  /// The next frame that has arrived whole; beats are not shown.
  std::optional<Frame> next();
  void allow(std::size_t longest) { longest_ = longest; }

  /// The other side has ended the connection, or has broken its rules.
  [[nodiscard]] bool closed() const noexcept { return closed_; }
  [[nodiscard]] bool silent() const { return Clock::now() - heard_ > longest_silence; }

  void prepare(std::vector<pollfd>& waited_for) const;
  [[nodiscard]] Clock::time_point deadline() const { return next_beat_; }

 private:
  /// How one side's frames are sealed.
  struct Seals {
    Side side;
    std::uint64_t count = 0;  ///< frames so far
  };
  /// Of the next frame: `said` is its kind and body.
  std::uint64_t seal(Seals& seals, std::string_view said) const;
  void read();
  void write();
  void give_up();

  UniqueFd socket_;
  std::size_t longest_;
  wire::JobKey key_;
  Seals own_, other_;
  std::string received_, unsent_;
  Clock::time_point heard_ = Clock::now();
  Clock::time_point next_beat_ = Clock::now();
  bool closed_ = false;
  bool parted_ = false;
};

}  // namespace isthmus::mpiexec
