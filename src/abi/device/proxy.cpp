#include "abi/device/proxy.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "abi/core/gpu_share.hpp"
#include "abi/core/runtime.hpp"
#include "base/system/blocked_signals.hpp"
#include "gpu/driver/cuda_error.hpp"
#include "launch/leave_core.hpp"

namespace isthmus::abi {
namespace {

using device::Order;

constexpr int order_tag = 1, put_tag = 2, get_tag = 3;
/// After so long without work it naps between looks.
constexpr std::chrono::microseconds before_napping{200};
constexpr timespec nap_length{0, 20'000};

/// Whether that message is over.
Result<bool> is_over(MPI_Request& request) {
  int over = 0;
  ISTHMUS_TRY(check_mpi(PMPI_Test(&request, &over, MPI_STATUS_IGNORE), "what a kernel has put or got"));
  return over != 0;
}

cuda::Address address_of(const std::byte* memory) {
  return reinterpret_cast<cuda::Address>(memory);
}

}  // namespace

Result<std::unique_ptr<DeviceProxy>> DeviceProxy::start(device::Port& port, cuda::PrimaryContexts& contexts,
                                                        MPI_Comm comm) {
  MPI_Comm own = MPI_COMM_NULL;
  ISTHMUS_TRY(check_mpi(PMPI_Comm_dup(comm, &own), "the communicator of a proxy"));
  PMPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  std::unique_ptr<DeviceProxy> proxy(new DeviceProxy(port, own));
  ISTHMUS_TRY(proxy->prepare(contexts));
  const BlockedSignals blocked;
  try {
    proxy->thread_ = std::thread([raw = proxy.get(), &job = Runtime::get().engine->job()] {
      launch::leave_core(job);
      raw->run();
    });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("no thread for a port's proxy: ") + error.what());
  }
  return proxy;
}

Result<> DeviceProxy::prepare(cuda::PrimaryContexts& contexts) {
  const std::size_t ranks = port_.ids.size();
  for (const int tag : {put_tag, get_tag})
    for (std::size_t i = 0; i < ranks; ++i)
      lanes_.push_back({.source = static_cast<int>(i), .tag = tag, .coming = {}});
  sent_.resize(ranks);
  done_.resize(ranks);
  auto pages = PinnedPages::make(contexts, port_.device(), 2 * buffers * chunk);
  if (!pages) return std::unexpected(std::move(pages).error());
  pinned_ = std::move(*pages);
  const cuda::Functions& cuda = port_.functions();
  const cuda::ContextScope scope(cuda, port_.context());
  std::byte* next = pinned_->span().data();
  cuda::Status status = cuda::Status::success;
  for (cuda::Stream* stream : {&out_stream_, &in_stream_})
    if (status == cuda::Status::success) status = cuda.stream_create(stream, cuda::stream_non_blocking);
  for (Ring* ring : {&out_, &in_})
    for (Buffer& buffer : ring->all) {
      buffer.data = next;
      next += chunk;
      if (status == cuda::Status::success)
        status = cuda.event_create(&buffer.copied, cuda::event_disable_timing);
    }
  if (status == cuda::Status::success) return {};
  return cuda::fail(cuda, status, "make a stream or event");
}

DeviceProxy::~DeviceProxy() {
  stop();
  if (comm_ != MPI_COMM_NULL) PMPI_Comm_free(&comm_);
  const cuda::Functions& cuda = port_.functions();
  const cuda::ContextScope scope(cuda, port_.context());
  for (cuda::Stream stream : {out_stream_, in_stream_})
    if (stream) {
      cuda.stream_synchronize(stream);
      cuda.stream_destroy(stream);
    }
  for (Ring* ring : {&out_, &in_})
    for (const Buffer& buffer : ring->all)
      if (buffer.copied) cuda.event_destroy(buffer.copied);
}

void DeviceProxy::set_share(std::uint32_t number, std::byte* data, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (number >= shares_.size()) {
    shares_.resize(number + 1);
    share_bytes_.resize(number + 1);
  }
  shares_[number] = data;
  share_bytes_[number] = bytes;
}

void DeviceProxy::stop() noexcept {
  if (!thread_.joinable()) return;
  ending_.store(true);
  thread_.join();
}

Result<> DeviceProxy::drain() {
  const auto until = [&](auto&& ready) -> Result<> {
    for (;;) {
      ISTHMUS_TRY(port_.check());
      {
        const std::scoped_lock lock(mutex_);
        if (ready()) return {};
      }
      ::nanosleep(&nap_length, nullptr);
    }
  };
  // Of a look that has begun later than this, for all that kernels have written before.
  const std::uint64_t fresh = [&] {
    const std::scoped_lock lock(mutex_);
    return looks_ + 2;
  }();
  ISTHMUS_TRY(until([&] { return looks_ >= fresh && is_idle_; }));
  std::vector<std::uint64_t> expected(sent_.size());
  ISTHMUS_TRY(check_mpi(PMPI_Alltoall(sent_.data(), 1, MPI_UINT64_T, expected.data(), 1, MPI_UINT64_T, comm_),
                        "processes of a port do not meet"));
  ISTHMUS_TRY(until([&] { return done_ == expected; }));
  const cuda::ContextScope scope(port_.functions(), port_.context());
  if (const cuda::Status status = port_.functions().stream_synchronize(in_stream_);
      status != cuda::Status::success)
    return cuda::fail(port_.functions(), status, "wait for a stream");
  return check_mpi(PMPI_Barrier(comm_), "processes of a port do not meet");
}

void DeviceProxy::run() noexcept {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = Clock::now();
  while (!ending_.load(std::memory_order_acquire) && port_.check()) {
    Result<bool> moved = false;
    try {
      const cuda::ContextScope scope(port_.functions(), port_.context());
      moved = look();
    } catch (const std::exception& error) {
      moved = fail(ErrorClass::no_mem, error.what());
    }
    if (!moved) {
      // Of messages that a process's death has ended, the death is the reason.
      port_.look_for_losses();
      if (port_.check()) port_.fail_for_good(std::move(moved).error());
      break;
    }
    if (*moved)
      last = Clock::now();
    else if (Clock::now() - last < before_napping)
      ::sched_yield();
    else
      ::nanosleep(&nap_length, nullptr);
  }
  give_up();
}

Result<bool> DeviceProxy::look() {
  if (hearing_ == MPI_REQUEST_NULL) ISTHMUS_TRY(listen());
  bool moved = false;
  for (const auto step :
       {&DeviceProxy::take_requests, &DeviceProxy::take_orders, &DeviceProxy::end_orders,
        &DeviceProxy::send_chunks, &DeviceProxy::receive_chunks, &DeviceProxy::land_chunks}) {
    Result<bool> result = (this->*step)();
    if (!result) return result;
    moved = moved || *result;
  }
  std::atomic_ref(port_.control().done).store(requests_.ended(), std::memory_order_release);
  isthmus_device_request& slot = port_.requests()[next_ % device::Port::slots];
  const bool is_asked = std::atomic_ref(slot.number).load(std::memory_order_acquire) == next_;
  const std::scoped_lock lock(mutex_);
  is_idle_ = requests_.is_idle() && orders_.empty() && !is_asked;
  ++looks_;
  return moved;
}

// --- requests of this process's kernels

Result<bool> DeviceProxy::take_requests() {
  bool moved = false;
  for (;; ++next_) {
    isthmus_device_request& slot = port_.requests()[next_ % device::Port::slots];
    if (std::atomic_ref(slot.number).load(std::memory_order_acquire) != next_) return moved;
    const isthmus_device_request request = slot;
    ISTHMUS_TRY(begin(request));
    moved = true;
  }
}

Result<> DeviceProxy::begin(const isthmus_device_request& request) {
  const auto to = static_cast<std::size_t>(request.rank);
  if (request.rank < 0 || to >= port_.ids.size())
    return fail(ErrorClass::rank, "a kernel's request names a rank that the port has not");
  const std::uint64_t number = requests_.begin();
  Sent sent{.order = std::make_unique<Order>(device::order_of(request))};
  ISTHMUS_TRY(check_mpi(
      PMPI_Isend(sent.order.get(), sizeof(Order), MPI_BYTE, request.rank, order_tag, comm_, &sent.message),
      "a kernel's request"));
  orders_.push_back(std::move(sent));
  if (request.kind == ISTHMUS_DEVICE_PUT && request.bytes > 0)
    leaving_.push_back({.number = number,
                        .to = request.rank,
                        .tag = put_tag,
                        .from = request.local,
                        .bytes = request.bytes});
  else if (request.kind == ISTHMUS_DEVICE_GET && request.bytes > 0)
    lanes_[port_.ids.size() + to].coming.push_back(
        {.number = number, .to = request.local, .bytes = request.bytes, .order = {}});
  else
    requests_.end(number);
  const std::scoped_lock lock(mutex_);
  ++sent_[to];
  return {};
}

Result<bool> DeviceProxy::end_orders() {
  bool moved = false;
  while (!orders_.empty()) {
    Result<bool> over = is_over(orders_.front().message);
    if (!over) return over;
    if (!*over) break;
    orders_.pop_front();
    moved = true;
  }
  return moved;
}

// --- orders of other processes

Result<> DeviceProxy::listen() {
  return check_mpi(PMPI_Irecv(&heard_, sizeof heard_, MPI_BYTE, MPI_ANY_SOURCE, order_tag, comm_, &hearing_),
                   "other processes' requests");
}

Result<bool> DeviceProxy::take_orders() {
  bool moved = false;
  for (;;) {
    int over = 0, bytes = 0;
    MPI_Status status;
    ISTHMUS_TRY(check_mpi(PMPI_Test(&hearing_, &over, &status), "another process's request"));
    if (over == 0) return moved;
    PMPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != sizeof heard_)
      return fail(ErrorClass::intern, "another process's request has not its length");
    ISTHMUS_TRY(obey(status.MPI_SOURCE, heard_));
    ISTHMUS_TRY(listen());
    moved = true;
  }
}

Result<> DeviceProxy::check_order(const Order& order, cuda::Address& data) {
  const std::scoped_lock lock(mutex_);
  ISTHMUS_TRY(device::check(order, port_.extent().signals, share_bytes_));
  if (order.kind != ISTHMUS_DEVICE_SIGNAL) data = address_of(shares_[order.share]) + order.offset;
  return {};
}

Result<> DeviceProxy::obey(int source, const Order& order) {
  cuda::Address data = 0;
  ISTHMUS_TRY(check_order(order, data));
  if (order.kind == ISTHMUS_DEVICE_GET) {
    if (order.bytes > 0)
      leaving_.push_back({.number = 0, .to = source, .tag = get_tag, .from = data, .bytes = order.bytes});
    const std::scoped_lock lock(mutex_);
    ++done_[static_cast<std::size_t>(source)];
    return {};
  }
  lanes_[static_cast<std::size_t>(source)].coming.push_back(
      {.number = 0, .to = data, .bytes = order.kind == ISTHMUS_DEVICE_PUT ? order.bytes : 0, .order = order});
  return {};
}

// --- bytes

Result<> DeviceProxy::copy(cuda::Address to, cuda::Address from, std::size_t bytes, cuda::Stream stream,
                           cuda::Event event) const {
  const cuda::Functions& cuda = port_.functions();
  cuda::Status status = cuda.copy_async(to, from, bytes, stream);
  if (status == cuda::Status::success) status = cuda.event_record(event, stream);
  if (status == cuda::Status::success) return {};
  return cuda::fail(cuda, status, "copy what a kernel has put or wants to get");
}

Result<bool> DeviceProxy::is_copied(cuda::Event event) const {
  const cuda::Status status = port_.functions().event_query(event);
  if (status == cuda::Status::success) return true;
  if (status == cuda::Status::not_ready) return false;
  return std::unexpected(cuda::fail(port_.functions(), status, "copy what a kernel has put or got").error());
}

/// Copied to a buffer, then sent: both in the order in which they were asked for, by which the other side
/// tells the chunks.
Result<bool> DeviceProxy::send_chunks() {
  bool moved = false;
  while (!leaving_.empty() && out_.used < buffers) {
    Leaving& next = leaving_.front();
    Buffer& buffer = out_.at(out_.used);
    buffer.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(chunk, next.bytes - left_));
    buffer.out = next;
    ISTHMUS_TRY(copy(address_of(buffer.data), next.from + left_, buffer.bytes, out_stream_, buffer.copied));
    ++out_.used;
    left_ += buffer.bytes;
    buffer.is_last = left_ == next.bytes;
    if (buffer.is_last) {
      leaving_.pop_front();
      left_ = 0;
    }
    moved = true;
  }
  while (out_.sending < out_.used) {
    Buffer& buffer = out_.at(out_.sending);
    Result<bool> copied = is_copied(buffer.copied);
    if (!copied) return copied;
    if (!*copied) break;
    ISTHMUS_TRY(check_mpi(PMPI_Isend(buffer.data, static_cast<int>(buffer.bytes), MPI_BYTE, buffer.out.to,
                                     buffer.out.tag, comm_, &buffer.message),
                          "what a kernel has put"));
    // The program's memory is not read any more.
    if (buffer.is_last && buffer.out.number != 0) requests_.end(buffer.out.number);
    ++out_.sending;
    moved = true;
  }
  while (out_.sending > 0) {
    Result<bool> over = is_over(out_.at(0).message);
    if (!over) return over;
    if (!*over) break;
    out_.first = (out_.first + 1) % buffers;
    --out_.sending;
    --out_.used;
    moved = true;
  }
  return moved;
}

Result<bool> DeviceProxy::receive_chunks() {
  bool moved = false;
  for (Lane& lane : lanes_) {
    Result<bool> ended = end_signals(lane);
    if (!ended) return ended;
    moved = moved || *ended;
    while (!lane.coming.empty() && in_.used < buffers) {
      Result<bool> received = receive_chunk(lane);
      if (!received) return received;
      if (!*received) break;
      moved = true;
    }
  }
  return moved;
}

/// Takes a buffer only for what is there.
Result<bool> DeviceProxy::receive_chunk(Lane& lane) {
  int is_there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  ISTHMUS_TRY(check_mpi(PMPI_Improbe(lane.source, lane.tag, comm_, &is_there, &message, MPI_STATUS_IGNORE),
                        "what a kernel has put"));
  if (is_there == 0) return false;
  Coming& next = lane.coming.front();
  Buffer& buffer = in_.at(in_.used);
  buffer.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(chunk, next.bytes - lane.begun));
  buffer.in = next;
  buffer.in.to += lane.begun;
  ISTHMUS_TRY(
      check_mpi(PMPI_Imrecv(buffer.data, static_cast<int>(buffer.bytes), MPI_BYTE, &message, &buffer.message),
                "what a kernel has put"));
  ++in_.used;
  lane.begun += buffer.bytes;
  buffer.is_last = lane.begun == next.bytes;
  buffer.out.to = lane.source;
  if (buffer.is_last) {
    lane.coming.pop_front();
    lane.begun = 0;
    ISTHMUS_TRY(end_signals(lane));
  }
  return true;
}

/// Each chunk goes to the GPU in the order of its buffer, on one stream, on which the signal follows the last
/// one. So what comes later, and signals alone, is behind it too.
Result<bool> DeviceProxy::land_chunks() {
  bool moved = false;
  while (in_.sending < in_.used) {
    Buffer& buffer = in_.at(in_.sending);
    if (buffer.bytes > 0) {
      Result<bool> over = is_over(buffer.message);
      if (!over) return over;
      if (!*over) break;
      ISTHMUS_TRY(copy(buffer.in.to, address_of(buffer.data), buffer.bytes, in_stream_, buffer.copied));
    } else if (const cuda::Status status = port_.functions().event_record(buffer.copied, in_stream_);
               status != cuda::Status::success) {
      return std::unexpected(cuda::fail(port_.functions(), status, "record an event").error());
    }
    if (buffer.is_last && buffer.in.order.signals != 0) ISTHMUS_TRY(set_signal(buffer.in.order));
    ++in_.sending;
    moved = true;
  }
  while (in_.sending > 0) {
    Buffer& buffer = in_.at(0);
    Result<bool> copied = is_copied(buffer.copied);
    if (!copied) return copied;
    if (!*copied) break;
    if (buffer.is_last && buffer.in.number != 0) requests_.end(buffer.in.number);
    if (buffer.is_last && buffer.in.number == 0) {
      const std::scoped_lock lock(mutex_);
      ++done_[static_cast<std::size_t>(buffer.out.to)];
    }
    in_.first = (in_.first + 1) % buffers;
    --in_.sending;
    --in_.used;
    moved = true;
  }
  return moved;
}

/// Orders with no bytes take a buffer as well, for their place among the others.
Result<bool> DeviceProxy::end_signals(Lane& lane) {
  bool moved = false;
  while (!lane.coming.empty() && lane.coming.front().bytes == 0 && in_.used < buffers) {
    Buffer& buffer = in_.at(in_.used);
    buffer.bytes = 0;
    buffer.in = lane.coming.front();
    buffer.is_last = true;
    buffer.out.to = lane.source;
    ++in_.used;
    lane.coming.pop_front();
    moved = true;
  }
  return moved;
}

Result<> DeviceProxy::set_signal(const Order& order) const {
  const cuda::Functions& cuda = port_.functions();
  const cuda::Address line = port_.signal(order.signal);
  cuda::Status status = cuda::Status::success;
  if (order.signals == ISTHMUS_DEVICE_LINE)
    status =
        cuda.stream_write_value_64(in_stream_, line + offsetof(isthmus_device_line, word), order.word, 0);
  if (status == cuda::Status::success) status = cuda.stream_write_value_64(in_stream_, line, order.value, 0);
  if (status == cuda::Status::success) return {};
  return cuda::fail(cuda, status, "let a stream set a signal (cuStreamWriteValue64)");
}

/// What is under way to or from memory of the proxy's; it is not freed as long as MPI may use it.
void DeviceProxy::give_up() noexcept {
  const auto end = [](MPI_Request& request, bool receives) {
    if (request == MPI_REQUEST_NULL) return false;
    int over = 0;
    PMPI_Test(&request, &over, MPI_STATUS_IGNORE);
    if (over != 0 || request == MPI_REQUEST_NULL) return false;
    if (receives) PMPI_Cancel(&request);
    PMPI_Request_free(&request);
    return !receives;
  };
  bool is_used = false;
  end(hearing_, true);
  for (Sent& each : orders_)
    if (end(each.message, false)) [[maybe_unused]]
      const Order* const stays = each.order.release();
  for (std::size_t i = 0; i < out_.sending; ++i)
    is_used = end(out_.at(i).message, false) || is_used;
  // Matched already, so it cannot be cancelled.
  for (std::size_t i = in_.sending; i < in_.used; ++i)
    is_used = end(in_.at(i).message, false) || is_used;
  if (!is_used) return;
  [[maybe_unused]] const PinnedPages* const stays = pinned_.release();
}

}  // namespace isthmus::abi
