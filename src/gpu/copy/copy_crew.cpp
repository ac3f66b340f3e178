#include "gpu/copy/copy_crew.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "base/futex.hpp"
#include "base/system/blocked_signals.hpp"

namespace isthmus {
namespace {

/// Between two chunks of a message some 40 us pass.
constexpr std::chrono::microseconds awake{100};
constexpr std::uint32_t looks_per_clock = 64;
/// A sleeping helper looks up after this long whatever happens.
constexpr long asleep_microseconds = 1'000'000;

}  // namespace

CopyCrew::CopyCrew(CpuSet spare, std::size_t helpers)
    : spare_(std::move(spare)), wanted_(std::min({helpers, most_helpers, spare_.size()})) {}

CopyCrew::~CopyCrew() {
  ending_.store(true, std::memory_order_seq_cst);
  calls_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(calls_);
  threads_.clear();
}

void CopyCrew::start() {
  if (std::exchange(started_, true)) return;
  const BlockedSignals blocked;
  try {
    threads_.reserve(wanted_);
    while (threads_.size() < wanted_)
      threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    return;  // as many as there are
  } catch (const std::bad_alloc&) {
    return;
  }
}

void CopyCrew::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (wanted_ == 0 || bytes < least_shared) return copy_past_cache(to, from, bytes);
  start();
  ++shared_;
  const std::uint64_t number = (open_.load(std::memory_order_relaxed) >> 32U) + 1;
  const auto blocks = static_cast<std::uint32_t>((bytes + block - 1) / block);
  to_.store(to, std::memory_order_relaxed);
  from_.store(from, std::memory_order_relaxed);
  bytes_.store(bytes, std::memory_order_relaxed);
  copied_.store(0, std::memory_order_relaxed);
  open_.store(number << 32U | blocks, std::memory_order_release);
  calls_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) != 0) futex_wake(calls_);
  work();
  // What is left is under way. Who has it may have lost its processor.
  for (std::uint32_t looks = 0; copied_.load(std::memory_order_acquire) != blocks; ++looks) {
    if (looks < 10'000)
      cpu_pause();
    else
      std::this_thread::yield();
  }
}

void CopyCrew::work() noexcept {
  std::uint64_t seen = open_.load(std::memory_order_acquire);
  while ((seen & UINT32_MAX) != 0) {
    std::byte* const to = to_.load(std::memory_order_relaxed);
    const std::byte* const from = from_.load(std::memory_order_relaxed);
    const std::size_t bytes = bytes_.load(std::memory_order_relaxed);
    if (!open_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    const std::size_t at = ((seen & UINT32_MAX) - 1) * block;
    copy_past_cache(to + at, from + at, std::min(block, bytes - at));
    copied_.fetch_add(1, std::memory_order_release);
    seen = open_.load(std::memory_order_acquire);
  }
}

void CopyCrew::run() {
  // On a rank's own processor it would take that rank's time.
  if (spare_.bind() != 0) return;
  at_work_.fetch_add(1, std::memory_order_relaxed);
  using Clock = std::chrono::steady_clock;
  std::uint32_t call = calls_.load(std::memory_order_acquire);
  work();
  Clock::time_point last = Clock::now();
  for (std::uint32_t looks = 1;; ++looks) {
    if (ending_.load(std::memory_order_acquire)) return;
    const std::uint32_t now = calls_.load(std::memory_order_acquire);
    if (now != call) {
      call = now;
      work();
      last = Clock::now();
      continue;
    }
    cpu_pause();
    if (looks % looks_per_clock != 0 || Clock::now() - last < awake) continue;
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    if (calls_.load(std::memory_order_seq_cst) == call) futex_wait(calls_, call, asleep_microseconds);
    sleeping_.fetch_sub(1, std::memory_order_relaxed);
    last = Clock::now();
  }
}

}  // namespace isthmus
