#include "gpu/memory/pinned_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <string>

#include "gpu/driver/refusal.hpp"

namespace isthmus {

Result<std::unique_ptr<PinnedPages>> PinnedPages::make(cuda::PrimaryContexts& contexts, cuda::Device device,
                                                       std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorClass::no_mem, "the process has no room for " + std::to_string(bytes >> 10U) + " KiB");
  auto pinned = PinnedRange::pin(contexts, device, {static_cast<std::byte*>(memory), bytes});
  if (!pinned) {
    ::munmap(memory, bytes);
    return std::unexpected(std::move(pinned).error());
  }
  try {
    return std::unique_ptr<PinnedPages>(new PinnedPages(std::move(*pinned)));
  } catch (...) {
    {
      const PinnedRange unpinned = std::move(*pinned);
    }
    ::munmap(memory, bytes);
    throw;
  }
}

PinnedPages::~PinnedPages() {
  const std::span<std::byte> memory = span();
  {
    const PinnedRange unpinned = std::move(pinned_);
  }
  ::munmap(memory.data(), memory.size());
}

PinnedBuffer::~PinnedBuffer() {
  if (pages_) pool_->give_back(std::move(pages_));
}

PinnedPool::PinnedPool(cuda::PrimaryContexts& contexts, cuda::Device device, Limits limits)
    : contexts_(contexts), device_(device), limits_(limits) {}

Result<PinnedBuffer> PinnedPool::take(std::size_t bytes) {
  const std::size_t wanted = std::bit_ceil(std::clamp(bytes, limits_.least, limits_.most));
  return take(wanted, limits_.least);
}

Result<PinnedBuffer> PinnedPool::take_whole(std::size_t bytes) {
  const std::size_t wanted = std::bit_ceil(std::max(bytes, limits_.least));
  return take(wanted, wanted);
}

Result<PinnedBuffer> PinnedPool::take(std::size_t wanted, std::size_t least) {
  forget_lost();
  std::string reason = "the limit of " + std::to_string(limits_.most >> 20U) + " MiB is in use";
  for (std::size_t size = wanted; size >= least; size /= 2) {
    if (auto pages = find(size)) return PinnedBuffer(*this, std::move(pages));
    if (pinned_ + size > limits_.most) continue;
    free_.reserve(living_ + 1);
    auto pages = PinnedPages::make(contexts_, device_, size);
    if (pages) {
      pinned_ += size;
      ++living_;
      return PinnedBuffer(*this, std::move(*pages));
    }
    if (pages.error().error_class() != ErrorClass::no_mem) return std::unexpected(std::move(pages).error());
    reason = pages.error().text();
  }
  return fail(ErrorClass::no_mem, std::string(gpu_refusal::not_pinned.text) + ", not even " +
                                      std::to_string(least >> 10U) + " KiB: " + reason);
}

std::unique_ptr<PinnedPages> PinnedPool::find(std::size_t bytes) {
  // The smallest that is large enough.
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)
    if ((*it)->span().size() >= bytes &&
        (best == free_.end() || (*it)->span().size() < (*best)->span().size()))
      best = it;
  if (best == free_.end()) return nullptr;
  auto pages = std::move(*best);
  free_.erase(best);
  return pages;
}

void PinnedPool::give_back(std::unique_ptr<PinnedPages> pages) noexcept {
  free_.push_back(std::move(pages));
}

void PinnedPool::forget_lost() noexcept {
  std::erase_if(free_, [this](const std::unique_ptr<PinnedPages>& pages) {
    if (!pages->is_over()) return false;
    pinned_ -= pages->span().size();
    --living_;
    return true;
  });
}

}  // namespace isthmus
