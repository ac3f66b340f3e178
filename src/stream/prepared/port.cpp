#include "stream/prepared/port.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/system/blocked_signals.hpp"
#include "gpu/driver/cuda_error.hpp"

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

Result<> Port::start() {
  const cuda::ContextScope scope(functions_, context_);
  int can_flush = 0;
  functions_.device_attribute(&can_flush, cuda::DeviceAttribute::can_flush_remote_writes, device_);
  if (can_flush != 0) flush_ = cuda::wait_flush;
  if (const Status status = functions_.stream_create(&stream_, cuda::stream_non_blocking);
      status != Status::success)
    return cuda::fail(functions_, status, "make a stream");
  const std::size_t trial = line(Line::ended);
  const auto try_word = [&](cuda::Address word) {
    return put_words(stream_, std::array{Step{.to = word, .value = 1},
                                         Step{.kind = Step::Kind::wait, .to = word, .value = 1},
                                         Step{.to = word, .value = 2}});
  };
  ISTHMUS_TRY(try_word(own().address(trial)));
  if (has_words_on_gpu()) ISTHMUS_TRY(try_word(room()->address(trial)));
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

void Port::part() const noexcept {
  for (std::size_t i = 0; i < peers.size(); ++i)
    if (static_cast<int>(i) != rank && peers[i].lines)
      peers[i].lines->word(line(Line::parted)).fetch_add(1, std::memory_order_release);
}

bool Port::is_over() const noexcept {
  if (carrier && !carrier->is_over()) return false;
  return !has_words_on_gpu() ||
         own().word(line(Line::parted)).load(std::memory_order_acquire) + 1 >= peers.size();
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

Result<cuda::Stream> Port::begin(cuda::Stream stream, bool& recorded) const {
  if (Result<> well = check(); !well) return std::unexpected(std::move(well).error());
  recorded = false;
  if (!stream) return stream_;
  const cuda::ContextScope scope(functions_, context_);
  auto capturing = check_stream(stream);
  if (!capturing) return std::unexpected(std::move(capturing).error());
  recorded = *capturing;
  return stream;
}

Result<> Port::put(cuda::Stream stream, std::span<const Step> steps, bool& recorded) {
  const auto there = begin(stream, recorded);
  if (!there) return fail(there.error().error_class(), there.error().text());
  const cuda::ContextScope scope(functions_, context_);
  return put_steps(*there, steps);
}

Result<> Port::post(cuda::Stream stream, std::span<const Step> steps, std::size_t line, bool& recorded) {
  const auto there = begin(stream, recorded);
  if (!there) return fail(there.error().error_class(), there.error().text());
  const cuda::ContextScope scope(functions_, context_);
  if (is_for_kernel(steps)) return launch(*there, steps, line);
  return put_steps(*there, steps);
}

Result<> Port::put_steps(cuda::Stream stream, std::span<const Step> steps) const {
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
  std::uint64_t bytes = 0, most = kernel::put_most_bytes;
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::wait || (step.kind == Step::Kind::copy && !step.is_reached)) return false;
    copies += step.kind == Step::Kind::copy ? 1 : 0;
    if (step.kind == Step::Kind::copy && !step.is_linked) most = kernel::put_most_unlinked;
    words += step.kind == Step::Kind::write ? 1 : 0;
    bytes += step.bytes;
  }
  return kernels_.put && copies > 0 && copies <= kernel::put_pieces && words <= 2 * kernel::put_pieces &&
         bytes <= most;
}

Result<> Port::launch(cuda::Stream stream, std::span<const Step> steps, std::size_t line) const {
  kernel::PutArguments work{};
  std::uint64_t bytes = 0;
  // NOLINTBEGIN(performance-no-int-to-ptr): addresses of the GPU
  work.done = reinterpret_cast<std::uint32_t*>(room()->address(line));
  for (const Step& step : steps)
    if (step.kind == Step::Kind::copy) {
      bytes += step.bytes;
      work.pieces[work.piece_count++] = {reinterpret_cast<kernel::Byte*>(step.to),
                                         reinterpret_cast<const kernel::Byte*>(step.from), step.bytes};
    } else {
      work.words[work.word_count++] = {reinterpret_cast<std::uint32_t*>(step.to), step.value};
    }
  // NOLINTEND(performance-no-int-to-ptr)
  const auto blocks = std::clamp<std::uint64_t>(bytes / kernel::put_block_bytes, 1, kernel::put_most_blocks);
  const Status status =
      launcher_.launch(stream, kernels_.put, static_cast<unsigned>(blocks), kernel::put_threads, &work);
  if (status == Status::success) return {};
  return cuda::fail(functions_, status, "put by a kernel in a stream");
}

Result<> Port::wait(cuda::Stream stream, const WordsWait& what) {
  bool recorded = false;
  const auto there = begin(stream, recorded);
  if (!there) return fail(there.error().error_class(), there.error().text());
  const cuda::ContextScope scope(functions_, context_);
  if (has_words_on_gpu()) return wait_by_kernel(*there, what);
  constexpr std::array flags{cuda::wait_equal, cuda::wait_at_least, cuda::wait_and};
  std::vector<Step> steps;
  steps.reserve(2 * what.words.size());
  for (const std::uint32_t word : what.words) {
    await(word, what.value);
    steps.push_back({.kind = Step::Kind::wait,
                     .to = own().address(word),
                     .value = what.value,
                     .condition = flags[static_cast<std::size_t>(what.condition)]});
    if (what.resets) steps.push_back({.to = own().address(word), .value = 0});
  }
  return put_steps(*there, steps);
}

Result<> Port::wait_by_kernel(cuda::Stream stream, const WordsWait& what) const {
  for (std::span<const std::uint32_t> left = what.words; !left.empty();) {
    const auto part = left.first(std::min<std::size_t>(left.size(), kernel::wait_words));
    left = left.subspan(part.size());
    kernel::WaitArguments work{};
    // NOLINTBEGIN(performance-no-int-to-ptr): addresses of the GPU
    work.ended = reinterpret_cast<const device::u64*>(own().address(line(Line::ended)));
    for (const std::uint32_t each : part)
      work.words[work.count++] = reinterpret_cast<std::uint32_t*>(word(rank, each));
    // NOLINTEND(performance-no-int-to-ptr)
    work.value = what.value;
    work.condition = what.condition;
    work.resets = what.resets ? 1 : 0;
    const Status status = launcher_.launch(stream, kernels_.wait, 1, kernel::wait_words, &work);
    if (status != Status::success) return cuda::fail(functions_, status, "wait by a kernel in a stream");
  }
  return {};
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
  own().word(line(Line::ended)).store(1, std::memory_order_release);
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
