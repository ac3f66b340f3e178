#include "stream/prepared/port.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/system/blocked_signals.hpp"
#include "gpu/driver/cuda_error.hpp"
#include "kernels/body/put.hpp"

namespace isthmus::stream {
namespace {

using cuda::Status;
using cuda::StreamOperation;
using cuda::StreamOperationType;

constexpr long look_nanoseconds = 20'000'000;
/// How long a value is left for a stream to see, where several are waited for in turn.
constexpr long hold_nanoseconds = 100'000;

void nap(long nanoseconds) noexcept {
  const timespec length{0, nanoseconds};
  ::nanosleep(&length, nullptr);
}

}  // namespace

Port::~Port() {
  carrier.reset();
  stop();
}

Result<> Port::start(std::size_t trial) {
  const cuda::ContextScope scope(functions_, context_);
  int can_flush = 0;
  functions_.device_attribute(&can_flush, cuda::DeviceAttribute::can_flush_remote_writes, device_);
  if (can_flush != 0) flush_ = cuda::wait_flush;
  if (const Status status = functions_.stream_create(&stream_, cuda::stream_non_blocking);
      status != Status::success)
    return cuda::fail(functions_, status, "make a stream");
  const cuda::Address word = own().address(trial);
  const std::array tried{Step{.to = word, .value = 1}, Step{.kind = Step::Kind::wait, .to = word, .value = 1},
                         Step{.to = word, .value = 2}};
  ISTHMUS_TRY(put_words(stream_, tried));
  if (const Status status = functions_.stream_synchronize(stream_); status != Status::success)
    return cuda::fail(functions_, status, "wait for a stream");
  if (own().word(trial).exchange(0) != 2)
    return fail(ErrorClass::unsupported_operation, "a stream of this GPU does not write to pinned memory");
  const BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("no thread to look after a port: ") + error.what());
  }
  return {};
}

void Port::stop() noexcept {
  if (thread_.joinable()) {
    ending_.store(true);
    thread_.join();
  }
  if (stream_) {
    const cuda::ContextScope scope(functions_, context_);
    functions_.stream_destroy(std::exchange(stream_, nullptr));
  }
}

Result<> Port::check() const {
  ISTHMUS_TRY(check_peers());
  if (cancelled_.load(std::memory_order_acquire)) return fail(ErrorClass::other, "the port was cancelled");
  return {};
}

Result<> Port::check_peers() const {
  if (has_failed_.load(std::memory_order_acquire)) return fail(failure_->error_class(), failure_->text());
  if (const int lost = lost_.load(std::memory_order_acquire); lost >= 0)
    return fail(ErrorClass::proc_aborted,
                "rank " + std::to_string(lost) +
                    " of the port has died: streams that waited have been let go, what they wait for "
                    "has not come");
  return {};
}

void Port::fail_for_good(Error why) noexcept {
  if (is_failing_.exchange(true)) return;
  failure_.emplace(std::move(why));
  has_failed_.store(true, std::memory_order_release);
}

void Port::set_errands(std::shared_ptr<ErrandLines> lines) {
  const std::scoped_lock lock(mutex_);
  errands_ = std::move(lines);
}

void Port::cancel() noexcept {
  cancelled_.store(true, std::memory_order_release);
}

void Port::abandon() noexcept {
  cancel();
  stop();
  is_abandoned_.store(true);
  ending_.store(false);
  const BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {
    // Once, by this thread: nobody else is there to do it.
    release_streams();
  }
}

Result<bool> Port::check_stream(cuda::Stream stream) const {
  constexpr std::uintptr_t last_default_stream = 2;
  if (reinterpret_cast<std::uintptr_t>(stream) <= last_default_stream)
    return fail(ErrorClass::arg,
                "stream is a default stream, for which others wait; make one by "
                "cudaStreamCreateWithFlags with cudaStreamNonBlocking");
  cuda::Context context = nullptr;
  if (const Status status = functions_.stream_context(stream, &context); status != Status::success)
    return std::unexpected(cuda::fail(functions_, status, "say what stream that is").error());
  if (context != context_) return fail(ErrorClass::arg, "stream is not of the port's GPU");
  auto capture = cuda::CaptureStatus::none;
  if (const Status status = functions_.stream_is_capturing(stream, &capture); status != Status::success)
    return std::unexpected(cuda::fail(functions_, status, "say whether a stream is in capture").error());
  if (capture == cuda::CaptureStatus::invalidated)
    return fail(ErrorClass::other, "the capture of the stream is invalid");
  return capture == cuda::CaptureStatus::active;
}

Result<> Port::put(cuda::Stream stream, std::span<const Step> steps, bool& recorded) {
  ISTHMUS_TRY(check());
  const cuda::ContextScope scope(functions_, context_);
  recorded = false;
  if (stream) {
    auto capturing = check_stream(stream);
    if (!capturing) return std::unexpected(std::move(capturing).error());
    recorded = *capturing;
  } else {
    stream = stream_;
  }
  if (is_for_kernel(steps)) return launch(stream, steps);
  while (!steps.empty()) {
    const auto end = std::ranges::find(steps, Step::Kind::copy, &Step::kind);
    const auto count =
        std::min<std::size_t>(static_cast<std::size_t>(end - steps.begin()), cuda::most_stream_operations);
    if (count > 0) {
      ISTHMUS_TRY(put_words(stream, steps.first(count)));
      steps = steps.subspan(count);
      continue;
    }
    const Step& copy = steps.front();
    if (const Status status = functions_.copy_async(copy.to, copy.from, copy.bytes, stream);
        status != Status::success)
      return cuda::fail(functions_, status, "copy in a stream");
    steps = steps.subspan(1);
  }
  return {};
}

bool Port::is_for_kernel(std::span<const Step> steps) const noexcept {
  std::size_t copies = 0, words = 0;
  std::uint64_t bytes = 0;
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::wait || (step.kind == Step::Kind::copy && !step.is_reached)) return false;
    copies += step.kind == Step::Kind::copy ? 1 : 0;
    words += step.kind == Step::Kind::write ? 1 : 0;
    bytes += step.bytes;
  }
  return put_kernel_ && copies > 0 && copies <= kernel::put_pieces && words <= 2 * kernel::put_pieces &&
         bytes <= kernel::put_most_bytes;
}

Result<> Port::launch(cuda::Stream stream, std::span<const Step> steps) const {
  kernel::PutArguments work{};
  // NOLINTBEGIN(performance-no-int-to-ptr): addresses of the GPU
  for (const Step& step : steps)
    if (step.kind == Step::Kind::copy)
      work.pieces[work.piece_count++] = {reinterpret_cast<kernel::Byte*>(step.to),
                                         reinterpret_cast<const kernel::Byte*>(step.from), step.bytes};
    else
      work.words[work.word_count++] = {reinterpret_cast<std::uint32_t*>(step.to), step.value};
  // NOLINTEND(performance-no-int-to-ptr)
  void* parameter = &work;
  const Status status =
      functions_.launch(put_kernel_, 1, 1, 1, kernel::put_threads, 1, 1, 0, stream, &parameter, nullptr);
  if (status == Status::success) return {};
  return cuda::fail(functions_, status, "put by a kernel in a stream");
}

Result<> Port::put_words(cuda::Stream stream, std::span<const Step> steps) const {
  std::array<StreamOperation, cuda::most_stream_operations> operations;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool waits = steps[i].kind == Step::Kind::wait;
    operations[i] = {.type = waits ? StreamOperationType::wait_value_32 : StreamOperationType::write_value_32,
                     .address = steps[i].to,
                     .value = steps[i].value,
                     .flags = waits ? steps[i].condition | flush_ : 0};
  }
  const Status status =
      functions_.stream_batch(stream, static_cast<unsigned>(steps.size()), operations.data(), 0);
  if (status == Status::success) return {};
  return cuda::fail(functions_, status, "let a stream write and wait for words (cuStreamBatchMemOp)");
}

void Port::await(std::size_t line, std::uint32_t value) {
  const std::scoped_lock lock(mutex_);
  if (std::ranges::find(awaited_, Awaited{line, value}) == awaited_.end()) awaited_.push_back({line, value});
}

void Port::watch() noexcept {
  using Clock = std::chrono::steady_clock;
  Clock::time_point looked;
  while (!ending_.load(std::memory_order_acquire)) {
    // Also when it was cancelled here: the carrier goes on for others until a process dies.
    if (const auto now = Clock::now(); now - looked >= std::chrono::nanoseconds(look_nanoseconds)) {
      if (!is_abandoned_.load(std::memory_order_acquire) && !is_broken()) look_for_losses();
      looked = now;
    }
    if (is_broken() || cancelled_.load(std::memory_order_acquire))
      release_streams();
    else
      nap(look_nanoseconds);
  }
}

void Port::look_for_losses() noexcept {
  const std::scoped_lock lock(engine_.lock());
  engine_.look_after_peers();
  for (std::size_t i = 0; i < peers.size(); ++i)
    if (static_cast<int>(i) != rank && engine_.has_lost(peers[i].id)) {
      lost_.store(static_cast<int>(i), std::memory_order_release);
      return;
    }
}

/// One value after the other: a stream waits for one of them, and then perhaps for another of the same word.
void Port::release_streams() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (errands_) errands_->release_streams();
  }
  for (std::size_t i = 0;; ++i) {
    {
      const std::scoped_lock lock(mutex_);
      if (i >= awaited_.size()) break;
      own().word(awaited_[i].line).store(awaited_[i].value, std::memory_order_release);
    }
    if (ending_.load(std::memory_order_acquire)) return;
    nap(hold_nanoseconds);
  }
  nap(hold_nanoseconds);
}

}  // namespace isthmus::stream
