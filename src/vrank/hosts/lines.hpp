#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/rank_turns.hpp"
#include "base/unique_fd.hpp"
#include "vrank/hosts/address.hpp"
#include "vrank/hosts/handshake.hpp"
#include "vrank/hosts/job_layout.hpp"
#include "vrank/hosts/meeting_book.hpp"
#include "wire/region.hpp"

namespace isthmus::vrank {

/// The lines of a process to the others of its job. A thread takes calls and what comes over its line to the
/// first process of the job, which brings together what ranks say at meetings.
///
/// Ranks call in their turns, when what is allocated is theirs: so nothing here grows in these functions.
class Lines final : public HostLines {
 public:
  /// `own`: this process, by its first rank. The region outlives the lines.
  Lines(JobLayout layout, std::uint32_t own, const wire::RegionView& region);
  ~Lines();

  /// Listens, and takes calls from now on. What others are to know of this process, but for its likeness.
  Result<ProcessAddress> open();
  /// Where all processes are, in the order of the layout. Before there are ranks.
  Result<> connect(std::vector<ProcessAddress> addresses);

  [[nodiscard]] const JobLayout& layout() const noexcept { return layout_; }
  /// Of this process, of lines.
  [[nodiscard]] const OwnDescriptors& descriptors() const noexcept { return own_descriptors_; }

  [[nodiscard]] std::uint32_t process_of(std::uint32_t rank) const noexcept override {
    return process_of_[rank].load(std::memory_order_acquire);
  }
  void set_process(std::uint32_t rank, std::uint32_t process) noexcept override {
    process_of_[rank].store(process, std::memory_order_release);
  }
  [[nodiscard]] std::uint32_t host_of_process(std::uint32_t process) const noexcept override {
    return layout_.process_of(process).host;
  }
  [[nodiscard]] std::uint32_t own_host() const noexcept override { return own_host_; }
  [[nodiscard]] std::uint32_t ranks_here() const noexcept override;
  Result<int> call(std::uint32_t from, std::uint32_t to, std::uint32_t epoch) override;
  std::optional<Caller> take_call(std::uint32_t rank, std::uint32_t epoch) noexcept override;
  bool wake_when(std::uint32_t rank, int events) noexcept override;
  Result<int> open_events(std::uint32_t rank) override;
  void close(int descriptor) noexcept override;
  void came_to_meeting(std::uint32_t rank, std::uint32_t number) noexcept override;
  void waits_at_meeting(std::uint32_t number) noexcept override;

  /// A line to `process`, where `rank` is to go on. It blocks.
  Result<OwnFd> call_to_carry(std::uint32_t rank, std::uint32_t process);
  /// The other end of one.
  struct Arrival {
    std::uint32_t rank;
    OwnFd line;
  };
  std::optional<Arrival> take_arrival();
  /// A rank has ended here: the regions of all hosts say so from then on.
  void tell_of_end(std::uint32_t rank, std::uint32_t ending) noexcept;
  /// Whether this process has heard of the end of all ranks, and the first has told all others.
  [[nodiscard]] bool have_all_ended() const noexcept {
    return ended_.load(std::memory_order_acquire) == world();
  }

 private:
  /// What goes over the lines to the first process, and back.
  struct LineFrame {
    enum class Kind : std::uint32_t { said = 1, heard = 2, ended = 3 };
    Kind kind;
    std::uint32_t number;  ///< of the meeting; of `ended`: the rank
    std::uint32_t count;   ///< statements, or words of ranks; of `ended`: how
    std::uint32_t reserved;
  };
  struct Call {
    std::uint32_t from, epoch;
    int socket;
  };
  struct Waiting {
    Reception reception;
    std::int64_t until;  ///< by the steady clock
  };

  [[nodiscard]] const ProcessAddress& address_of(std::uint32_t process) const noexcept;
  [[nodiscard]] std::uint32_t world() const noexcept {
    return static_cast<std::uint32_t>(process_of_.size());
  }

  // On the thread.
  void run(const std::stop_token& ends);
  void watch(int descriptor, std::uint64_t what, std::uint32_t events = 1) const noexcept;
  void take_visitors();
  void hear(std::uint64_t visitor);
  void drop_silent();
  void accepted(const CallSubject& subject, OwnFd line);
  void take_rank_call(const CallSubject& subject, OwnFd line);
  void serve_line(int line);
  void obey_first(int line);
  void all_have_said();
  void apply(std::uint32_t number, std::span<const MeetingWords> words) const noexcept;
  void note_end(std::uint32_t rank, std::uint32_t ending) noexcept;
  void tell_others(const LineFrame& frame, std::span<const std::byte> behind);

  bool send(const LineFrame& frame, std::span<const std::byte> behind) noexcept;
  void report(std::uint32_t number) noexcept;

  const JobLayout layout_;
  const std::uint32_t own_, own_host_;
  const wire::RegionView region_;
  std::vector<std::atomic<std::uint32_t>> process_of_;  ///< by rank
  OwnDescriptors own_descriptors_;
  std::vector<ProcessAddress> addresses_;
  wire::JobKey key_{};
  UniqueFd listener_, events_, end_;

  std::mutex calls_mutex_;
  std::vector<std::vector<Call>> calls_;                 ///< by rank
  std::vector<std::atomic<std::uint32_t>> calls_there_;  ///< how many
  std::vector<Arrival> arrivals_;

  std::mutex line_mutex_;  ///< held by who writes to it
  OwnFd line_;             ///< to the first process

  // The thread's.
  std::map<std::uint64_t, Waiting> visitors_;
  std::uint64_t last_visitor_ = 0;
  std::map<int, OwnFd> lines_;  ///< of the first process: to all
  int own_end_ = -1;            ///< of these, the one to itself
  MeetingBook book_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> endings_;  ///< ranks that have ended, and how
  std::vector<bool> has_ended_;                                   ///< by rank
  std::atomic<std::uint32_t> ended_{0};                           ///< how many
  std::jthread thread_;
};

}  // namespace isthmus::vrank
