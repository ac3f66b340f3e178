#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "gpu/memory/pinned_pool.hpp"

namespace isthmus::stream {

/// One line of pinned memory for an operation. The stream writes 0 to `done` and 1 to `go`; the proxy sets
/// `go` back when it has seen it, and writes 1 to `done` at the operation's end, which the stream waits for.
/// No number counts: so the same writes and waits are right each time that a captured graph is launched.
struct alignas(64) WordPair {
  std::uint32_t go = 0;
  std::uint32_t done = 0;
};

class WordPool;

/// A pair on loan; goes back to its pool at the end. The stream may still have to wait for it then: whoever
/// has it next puts its own writes behind that, on the same stream.
class Words {
 public:
  Words() = default;
  Words(std::shared_ptr<WordPool> pool, WordPair* pair, cuda::Address address) noexcept
      : pool_(std::move(pool)), pair_(pair), address_(address) {}
  Words(Words&& other) noexcept
      : pool_(std::move(other.pool_)), pair_(std::exchange(other.pair_, nullptr)), address_(other.address_) {}
  Words& operator=(Words&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(pair_, other.pair_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~Words();

  /// Whether the stream has got there. All that it wrote before is visible then.
  [[nodiscard]] bool has_gone() const noexcept {
    return std::atomic_ref(pair_->go).load(std::memory_order_acquire) != 0;
  }
  void set_back() const noexcept { std::atomic_ref(pair_->go).store(0, std::memory_order_relaxed); }
  /// Lets the stream go on, which sees all that this thread has seen.
  void release_stream() const noexcept { std::atomic_ref(pair_->done).store(1, std::memory_order_release); }
  [[nodiscard]] std::uint32_t done() const noexcept {
    return std::atomic_ref(pair_->done).load(std::memory_order_acquire);
  }

  // As the GPU names them.
  [[nodiscard]] cuda::Address go_address() const noexcept { return address_ + offsetof(WordPair, go); }
  [[nodiscard]] cuda::Address done_address() const noexcept { return address_ + offsetof(WordPair, done); }

 private:
  std::shared_ptr<WordPool> pool_;
  WordPair* pair_ = nullptr;
  cuda::Address address_ = 0;
};

/// The pairs of one stream. Pins 256 KiB at once, for 4096 operations, and as much again when they are all in
/// use.
class WordPool : public std::enable_shared_from_this<WordPool> {
 public:
  /// `context`: the stream's, on that device.
  WordPool(const cuda::Functions& functions, cuda::Device device, cuda::Context context)
      : contexts_(std::in_place, functions), device_(device), context_(context) {}

  /// One thread at a time. Other threads may give back meanwhile.
  Result<Words> take();
  void give_back(WordPair* pair) noexcept;
  /// Unpins, and lets go of the context, whoever still holds the pool. To do that waits for all that the GPU
  /// has to do. What is still on loan is not to be looked at again.
  void close() noexcept;
  /// Whether the program has reset the device: then nothing of the stream comes any more.
  [[nodiscard]] bool is_lost() noexcept;

 private:
  struct Block {
    std::unique_ptr<PinnedPages> pages;
    cuda::Address address = 0;
    [[nodiscard]] WordPair* first() const noexcept {
      return reinterpret_cast<WordPair*>(pages->span().data());
    }
  };
  Result<> grow();
  [[nodiscard]] cuda::Address address_of(const WordPair* pair) const noexcept;

  std::optional<cuda::PrimaryContexts> contexts_;  ///< none once it is closed
  const cuda::Device device_;
  cuda::Context context_;
  std::mutex mutex_;
  cuda::ContextLife life_ = 0;  ///< that the first block is of
  std::vector<Block> blocks_;
  std::vector<WordPair*> free_;  ///< with room for all
};

}  // namespace isthmus::stream
