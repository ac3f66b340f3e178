#include "stream/stream.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/driver/cuda_error.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus::stream {
namespace {

using cuda::Status;
using cuda::StreamOperation;
using cuda::StreamOperationType;

StreamOperation write(cuda::Address address, std::uint32_t value) noexcept {
  return {.type = StreamOperationType::write_value_32, .address = address, .value = value};
}

/// Of memory that no kernel reaches, or with gaps, for operations that are enqueued: each of up to 64 MiB
/// that its process sends, and what it receives.
constexpr std::size_t most_staged = std::size_t{1} << 30U;
/// Then what is enqueued waits for what is enqueued later: a mistake of the program's.
constexpr std::chrono::seconds most_to_wait_for_staging{10};

Result<> went_with_mpi() {
  return fail(ErrorClass::arg, "the stream of comm went with MPI_Finalize, or MPI_Session_finalize");
}

}  // namespace

Result<Ref<Stream>> Stream::make(Engine& engine, const cuda::Functions& functions, cuda::Stream stream) {
  cuda::Context context = nullptr;
  {
    const cuda::RelaxedCapture relaxed(functions);
    if (const Status status = functions.stream_context(stream, &context); status != Status::success)
      return cuda::fail(functions, status, "say what stream `value` is");
  }
  auto made = Ref<Stream>::adopt(new Stream(engine, functions, stream, context));
  ISTHMUS_TRY(made->prepare());
  auto proxy = Proxy::start(engine);
  if (!proxy) {
    made->close();
    return std::unexpected(std::move(proxy).error());
  }
  made->proxy_ = std::move(*proxy);
  return made;
}

Result<> Stream::prepare() {
  const cuda::ContextScope scope(functions_, context_);
  if (const Status status = functions_.context_device(&device_); status != Status::success)
    return cuda::fail(functions_, status, "say which GPU a stream is of");
  int can_flush = 0;
  functions_.device_attribute(&can_flush, cuda::DeviceAttribute::can_flush_remote_writes, device_);
  if (can_flush != 0) wait_flags_ |= cuda::wait_flush;
  launcher_.emplace(functions_, device_);
  words_ = std::make_shared<WordPool>(functions_, device_, context_);
  ISTHMUS_TRY(try_words());
  // Too late once a stream waits for a message: the driver lets such things wait for it.
  if (GpuMessages* const gpu = engine_.gpu()) {
    ISTHMUS_TRY(gpu->prepare(device_));
    gpu->exports().mappings().hold();
    holds_mappings_ = true;
  }
  return {};
}

/// On a stream of the library's own: the program's may be in capture, or wait for something.
Result<> Stream::try_words() {
  auto words = words_->take();
  if (!words) return std::unexpected(std::move(words).error());
  cuda::Stream own = nullptr;
  if (const Status status = functions_.stream_create(&own, cuda::stream_non_blocking);
      status != Status::success)
    return cuda::fail(functions_, status, "make a stream");
  std::array<StreamOperation, 4> operations{write(words->go_address(), 1), write(words->done_address(), 1),
                                            wait_for(*words), write(words->go_address(), 0)};
  Result<> tried =
      put(own, operations,
          "let a stream write to memory and wait for it (cuStreamBatchMemOp): no operation can be enqueued");
  const Status status = functions_.stream_synchronize(own);
  functions_.stream_destroy(own);
  ISTHMUS_TRY(std::move(tried));
  if (status != Status::success) return cuda::fail(functions_, status, "wait for a stream");
  if (words->done() != 1 || words->has_gone())
    return fail(ErrorClass::unsupported_operation,
                "a stream of this GPU does not write to pinned memory: no operation can be enqueued");
  return {};
}

StreamOperation Stream::wait_for(const Words& words) const noexcept {
  return {.type = StreamOperationType::wait_value_32,
          .address = words.done_address(),
          .value = 1,
          .flags = wait_flags_};
}

Result<> Stream::put(cuda::Stream where, std::span<StreamOperation> operations, const char* what) {
  const Status status =
      functions_.stream_batch(where, static_cast<unsigned>(operations.size()), operations.data(), 0);
  if (status == Status::success) return {};
  if (status == Status::not_supported)
    return fail(ErrorClass::unsupported_operation,
                "the CUDA driver refuses to " + std::string(what) + ": " + cuda::text_of(functions_, status));
  return cuda::fail(functions_, status, what);
}

Result<bool> Stream::is_capturing() {
  auto capture = cuda::CaptureStatus::none;
  if (const Status status = functions_.stream_is_capturing(stream_, &capture); status != Status::success)
    return std::unexpected(cuda::fail(functions_, status, "say whether a stream is in capture").error());
  if (capture == cuda::CaptureStatus::invalidated)
    return fail(ErrorClass::other,
                "the capture of the stream is invalid: a call that it does not allow has ended it");
  return capture == cuda::CaptureStatus::active;
}

template <class Work>
Result<> Stream::in_turn(Work work) {
  const EngineLock::Released released(engine_.lock());
  const std::scoped_lock turn(turn_);
  if (!proxy_) return went_with_mpi();
  const cuda::ContextScope scope(functions_, context_);
  auto capturing = is_capturing();
  if (!capturing) return std::unexpected(std::move(capturing).error());
  return work(*capturing);
}

Result<> Stream::begin(const Ref<Enqueued>& what, Then then) {
  return in_turn([&](bool capturing) { return begin(what, then, capturing); });
}

Result<> Stream::begin(const Ref<Enqueued>& what, Then then, bool capturing) {
  auto words = words_->take();
  if (!words) return std::unexpected(std::move(words).error());
  what->words = std::move(*words);
  what->is_recorded = capturing;
  what->number = ++number_;
  proxy_->add(what);
  std::array<StreamOperation, 3> operations{write(what->words.done_address(), 0),
                                            write(what->words.go_address(), 1), wait_for(what->words)};
  const std::size_t count = then == Then::waits ? 3 : 2;
  Result<> put_on = put(stream_, std::span(operations).first(count), "put an operation on a stream");
  if (!put_on) proxy_->withdraw(*what);
  return put_on;
}

Result<> Stream::wait(std::span<const Ref<Enqueued>> all) {
  return in_turn([&](bool capturing) { return wait(all, capturing); });
}

Result<> Stream::wait(std::span<const Ref<Enqueued>> all, bool capturing) {
  for (const Ref<Enqueued>& each : all)
    if (each->is_recorded != capturing)
      return fail(ErrorClass::request,
                  capturing
                      ? "request is of an operation that was enqueued before the capture, which would wait "
                        "for it again "
                        "at each launch"
                      : "request is of an operation of a capture: the wait belongs into the same capture");
  std::vector<StreamOperation> operations;
  operations.reserve(std::min(all.size(), cuda::most_stream_operations));
  while (!all.empty()) {
    const auto part = all.first(std::min(all.size(), cuda::most_stream_operations));
    operations.clear();
    for (const Ref<Enqueued>& each : part)
      operations.push_back(wait_for(each->words));
    ISTHMUS_TRY(put(stream_, operations, "let a stream wait"));
    all = all.subspan(part.size());
  }
  return {};
}

Result<> Stream::launch(cuda::Function kernel, unsigned blocks, unsigned threads, void* arguments,
                        const Ref<RefCounted>& keeps, std::uint64_t* number) {
  return in_turn([&](bool capturing) -> Result<> {
    if (capturing && std::ranges::find(kept_, keeps) == kept_.end()) kept_.push_back(keeps);
    ++number_;
    if (number) *number = number_;
    const Status status = launcher_->launch(stream_, kernel, blocks, threads, arguments);
    if (status != Status::success) return cuda::fail(functions_, status, "put a kernel on a stream");
    ++launched_;
    return {};
  });
}

Result<std::shared_ptr<const PinnedBuffer>> Stream::stage(std::size_t bytes) {
  const EngineLock::Released released(engine_.lock());
  const auto give_up = std::chrono::steady_clock::now() + most_to_wait_for_staging;
  for (;;) {
    auto buffer = try_stage(bytes);
    if (buffer || buffer.error().error_class() != ErrorClass::no_mem) return buffer;
    const bool can_come = [&] {
      const std::scoped_lock turn(turn_);
      const cuda::ContextScope scope(functions_, context_);
      const auto capturing = is_capturing();
      return proxy_ && capturing && !*capturing && proxy_->outstanding() > 0;
    }();
    if (!can_come || std::chrono::steady_clock::now() > give_up) return buffer;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// Without the engine's lock.
Result<std::shared_ptr<const PinnedBuffer>> Stream::try_stage(std::size_t bytes) {
  const std::scoped_lock turn(turn_);
  if (!proxy_) return std::unexpected(went_with_mpi().error());
  if (!staging_)
    // NOLINTNEXTLINE(modernize-make-shared): an aggregate of what cannot be moved
    staging_.reset(new Staging{
        .mutex = {},
        .pool = {engine_.gpu()->copies().contexts(), device_, PinnedPool::Limits{.most = most_staged}}});
  const std::scoped_lock lock(staging_->mutex);
  auto taken = staging_->pool.take_whole(bytes);
  if (!taken)
    return fail(taken.error().error_class(),
                "an operation in the order of a stream: " + taken.error().text());
  return std::shared_ptr<const PinnedBuffer>(new PinnedBuffer(std::move(*taken)),
                                             [from = staging_](const PinnedBuffer* buffer) {
                                               const std::scoped_lock giving(from->mutex);
                                               delete buffer;
                                             });
}

std::size_t Stream::outstanding() {
  if (!proxy_ || words_->is_lost()) return 0;
  if (launched_ > 0 && is_passed()) launched_ = 0;
  return proxy_->outstanding() + launched_;
}

/// A stream in capture has passed what came before.
bool Stream::is_passed() {
  const cuda::ContextScope scope(functions_, context_);
  const auto capturing = is_capturing();
  return !capturing || *capturing || functions_.stream_query(stream_) != Status::not_ready;
}

bool Stream::is_idle() {
  if (outstanding() > 0) return false;
  const cuda::ContextScope scope(functions_, context_);
  auto capture = cuda::CaptureStatus::none;
  return functions_.stream_is_capturing(stream_, &capture) == Status::success &&
         capture == cuda::CaptureStatus::none && functions_.stream_query(stream_) == Status::success;
}

void Stream::close() {
  proxy_.reset();
  if (std::exchange(holds_mappings_, false)) engine_.gpu()->exports().mappings().release();
  kept_.clear();
  const EngineLock::Released released(engine_.lock());
  staging_.reset();
  words_->close();
}

}  // namespace isthmus::stream
