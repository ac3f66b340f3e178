#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/memory/mapping.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/gpu_copy/copies.hpp"
#include "p2p/gpu_copy/courier_copy.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/request.hpp"
#include "route/gpu/live_plans.hpp"

namespace isthmus {

class Links;

/// Copies of messages by this process's GPUs, from where they begin to where their requests end. Guarded by
/// the engine's lock.
class GpuTransfers {
 public:
  /// What is to be done when a copy is over.
  enum class Purpose : std::uint8_t {
    land,  ///< a receive's, from its stand-in
    pull,  ///< a receive's, from the peer's memory
    push,  ///< a send's, to the peer's memory
  };
  struct Running {
    PendingCopy copy;
    Purpose purpose;
    wire::Cookie request;
    wire::Cookie peers;  ///< `pull`: the send, `push`: the receive that waits to hear of it
    std::shared_ptr<const Mapping> mapping;
    std::optional<CourierCopy> errand{};           ///< in place of the copy
    std::shared_ptr<const PinnedBuffer> pinned{};  ///< what it copies from, where that is the library's
  };

  /// All of them outlive it.
  GpuTransfers(Links& links, Completion& completion, GpuCopies& copies, LiveGpuPlans& lives)
      : links_(links), completion_(completion), copies_(copies), lives_(lives) {}
  GpuTransfers(const GpuTransfers&) = delete;
  GpuTransfers& operator=(const GpuTransfers&) = delete;
  ~GpuTransfers() = default;  ///< each copy under way is waited for

  /// Room for so many more, before they are started.
  void reserve(std::size_t more);
  /// What a request waits for has been started. `reserve` has been called before that.
  void add(Request& request, Running running) noexcept;
  /// A copy of all that the shorter side has, by the GPU that `near` lies on, from or to memory that a peer's
  /// GPU has. While that GPU has enough to do, short ones without gaps are held back until several can be
  /// started by one call of the driver: `poll` does that, or the eighth. Where this fails, nothing has become
  /// of the request.
  Result<> start_or_hold(Request& request, const Buffer& near, const Payload& from, const Payload& to,
                         Running running);
  /// Copies what has arrived in the stand-in of a receive to where the program wants it; with others, where
  /// it is short.
  Result<> land(Request& receive);
  /// Those of a purpose that have not ended.
  [[nodiscard]] std::size_t count(Purpose purpose) const noexcept;

  /// Ends the requests whose copies have ended, and starts what has been held back; how many have ended.
  unsigned poll();
  /// Whether nothing is under way or held back.
  [[nodiscard]] bool is_idle() const noexcept {
    return running_.empty() && over_.empty() && held_.empty() && landings_.empty();
  }

  /// Ends a request that cannot be: says why, once in the life of a process.
  void fail(Request& request, const Error& error) noexcept;
  void complain(const Error& error) noexcept;

 private:
  /// A copy that is to be started together with others.
  struct Held {
    Running running;
    Buffer near;  ///< a side of it, on the GPU that copies
    CopyPiece piece;
  };

  Result<bool> is_over(Running& running);
  void collect_over();
  unsigned end_over();
  void ended(const Running& running, const Result<bool>& result);
  // held.cpp
  void start_held();
  void start_held_if_idle();
  // landings.cpp
  /// Whether short messages from memory of the host wait for `start_landings`, so that all which have come
  /// at once are copied to the GPU together.
  [[nodiscard]] bool lands_with_others(const GpuPart& part, std::uint64_t bytes) const noexcept;
  Result<> land_alone(Request& receive);
  void start_landings();
  /// Of the first `count`, all of one GPU. False if they have to be started one by one.
  bool start_landings_together(std::size_t count);

  Links& links_;
  Completion& completion_;
  GpuCopies& copies_;
  LiveGpuPlans& lives_;
  std::vector<Running> running_;        ///< in the order in which they were started
  std::vector<Held> held_;              ///< all of one GPU
  std::vector<wire::Cookie> landings_;  ///< receives in their stand-ins, whose copies are to be started
  std::size_t held_bytes_ = 0;
  std::vector<const void*> busy_streams_;               ///< of `poll`
  std::vector<std::pair<Running, Result<bool>>> over_;  ///< whose requests are yet to end
  bool complained_ = false;
};

}  // namespace isthmus
