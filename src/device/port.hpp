#pragma once

#include <isthmus/device_view.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "p2p/engine.hpp"

namespace isthmus::device {

/// One process's side of a port that kernels communicate by (docs/device.md): its signals, which others write
/// to, the tables by which kernels here find the others' memory, and a page of pinned memory by which host
/// and kernels tell each other what goes wrong. A thread looks every 20 ms whether a process has died; then
/// kernels are told to wait no longer, and the next call of the host says who.
class Port {
 public:
  struct Extent {
    std::size_t ranks = 0;
    std::uint32_t signals = 0;
    std::uint32_t shares = 0;  ///< at a time
    std::size_t room = 0;      ///< bytes behind the packets, all 0: for kernels that meet or match messages
  };
  /// Requests that kernels can have given to the proxy before it has done the first.
  static constexpr std::uint32_t slots = 256;

  Port(Engine& engine, const cuda::Functions& functions, cuda::Device device, cuda::Context context)
      : engine_(engine), functions_(functions), device_(device), context_(context) {}
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  /// Frees what it has on the GPU, which waits for the GPU, unless it was abandoned.
  ~Port();

  /// `ids` and `rank` are set. Without the engine's lock.
  Result<> make(cuda::PrimaryContexts& contexts, const Extent& extent);
  /// When the tables are right. Without the engine's lock.
  Result<> start();
  /// Ends the thread. Without the engine's lock.
  void stop() noexcept;
  /// At the end of MPI, of a port that is never freed: kernels wait no longer, its memory stays. Without the
  /// engine's lock.
  void abandon() noexcept;

  /// What others are to open: signals and packets.
  [[nodiscard]] std::byte* shared() const noexcept { return reinterpret_cast<std::byte*>(shared_); }
  [[nodiscard]] std::size_t shared_bytes() const noexcept;
  /// Where the process of that rank has them, as kernels here see it; null: not mapped.
  Result<> set_peer(std::size_t of, const std::byte* at, bool has_atomics);
  /// Not all that it shares is mapped, so signals for it go by the proxy, behind what the proxy carries.
  Result<> set_detour(std::size_t of);
  /// Where the room begins in what is shared.
  [[nodiscard]] std::size_t room_offset() const noexcept { return shared_bytes() - extent_.room; }
  /// Where kernels here have the room of the process of that rank.
  [[nodiscard]] std::byte* room(std::size_t of) const noexcept;
  /// Not 0 when kernels are to wait no longer, as they see it.
  [[nodiscard]] const std::uint64_t* ended_word() const noexcept;
  Result<> set_spans(std::uint32_t share, const std::vector<isthmus_device_span>& spans);
  void set_team(bool all_are_mapped) noexcept { is_team_ = all_are_mapped; }
  void set_proxy(bool is_there) noexcept { has_proxy_ = is_there; }
  [[nodiscard]] isthmus_device_view view(std::uint32_t shares) const noexcept;

  /// Why nothing can be done any more.
  [[nodiscard]] Result<> check() const;
  /// What a kernel was refused since it was asked last.
  Result<> take_refusal();
  void cancel() noexcept;
  /// Whether a process has died since.
  void look_for_losses() noexcept;
  /// Nothing can be done any more, because of this.
  void fail_for_good(Error why) noexcept;

  /// Of this process, as the host sees it.
  [[nodiscard]] isthmus_device_control& control() const noexcept;
  [[nodiscard]] isthmus_device_request* requests() const noexcept;
  /// Where kernels have a signal of this process.
  [[nodiscard]] cuda::Address signal(std::uint32_t number) const noexcept {
    return shared_ + number * sizeof(isthmus_device_line);
  }
  [[nodiscard]] const Extent& extent() const noexcept { return extent_; }
  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const cuda::Functions& functions() const noexcept { return functions_; }
  [[nodiscard]] cuda::Device device() const noexcept { return device_; }
  [[nodiscard]] cuda::Context context() const noexcept { return context_; }

  int rank = 0;
  std::vector<PeerId> ids;           ///< by rank, this process too
  std::function<void()> before_end;  ///< called by `abandon`
  /// Asked with each look for losses, with the engine's lock held: why nothing can be done any more. Null:
  /// nobody knows more than the port.
  std::function<std::optional<Error>()> why_broken;

 private:
  Result<> write(cuda::Address to, const void* from, std::size_t bytes) const;
  void end_waits() const noexcept;
  void watch() noexcept;

  Engine& engine_;
  const cuda::Functions& functions_;
  const cuda::Device device_;
  cuda::ContextObject* const context_;
  cuda::PrimaryContexts* contexts_ = nullptr;  ///< set by `make`
  cuda::ContextLife life_ = 0;
  Extent extent_;
  cuda::Stream stream_ = nullptr;
  cuda::Address shared_ = 0;             ///< signals, then packets
  cuda::Address own_ = 0;                ///< state, peers, spans
  std::unique_ptr<PinnedPages> pinned_;  ///< control, then requests
  cuda::Address pinned_address_ = 0;
  std::vector<isthmus_device_peer> peers_;
  bool is_team_ = false;
  bool has_proxy_ = false;
  bool is_abandoned_ = false;
  std::optional<Error> failure_;  ///< read once `has_failed_`
  std::atomic<int> failing_{0};
  std::atomic<bool> has_failed_{false};
  std::atomic<int> lost_{-1};  ///< a rank
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace isthmus::device
