#include "abi/carry/carrier.hpp"

#include <sched.h>
#include <time.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "abi/core/gpu_share.hpp"
#include "abi/core/runtime.hpp"
#include "base/log.hpp"
#include "base/system/blocked_signals.hpp"
#include "gpu/driver/cuda_error.hpp"
#include "launch/leave_core.hpp"

namespace isthmus::abi {
namespace {

using carry::Kind;
using carry::Order;
using carry::Signal;

constexpr int order_tag = 1, put_tag = 2, get_tag = 3;
/// After so long without work it naps between looks.
constexpr std::chrono::microseconds before_napping{200};
constexpr timespec nap_length{0, 20'000};

/// Whether that message is over.
Result<bool> has_ended(MPI_Request& request) {
  int over = 0;
  ISTHMUS_TRY(check_mpi(PMPI_Test(&request, &over, MPI_STATUS_IGNORE), "what a port has put or got"));
  return over != 0;
}

cuda::Address address_of(const std::byte* memory) {
  return reinterpret_cast<cuda::Address>(memory);
}

}  // namespace

Result<std::unique_ptr<Carrier>> Carrier::start(std::unique_ptr<CarriedPort> port,
                                                cuda::PrimaryContexts& contexts, MPI_Comm comm) {
  MPI_Comm own = MPI_COMM_NULL;
  ISTHMUS_TRY(check_mpi(PMPI_Comm_dup(comm, &own), "the communicator of a proxy"));
  PMPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  std::unique_ptr<Carrier> proxy(new Carrier(std::move(port), own));
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

Result<> Carrier::prepare(cuda::PrimaryContexts& contexts) {
  int size = 0;
  PMPI_Comm_size(comm_, &size);
  PMPI_Comm_rank(comm_, &rank_);
  ranks_ = static_cast<std::size_t>(size);
  for (const int tag : {put_tag, get_tag})
    for (int i = 0; i < size; ++i)
      lanes_.push_back({.source = i, .tag = tag, .coming = {}});
  sent_.resize(ranks_);
  done_.resize(ranks_);
  auto pages = PinnedPages::make(contexts, port_->device(), 2 * buffers * chunk);
  if (!pages) return std::unexpected(std::move(pages).error());
  pinned_ = std::move(*pages);
  const cuda::Functions& cuda = port_->functions();
  const cuda::ContextScope scope(cuda, port_->context());
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

Carrier::~Carrier() {
  stop();
  if (comm_ != MPI_COMM_NULL) PMPI_Comm_free(&comm_);
  const cuda::Functions& cuda = port_->functions();
  const cuda::ContextScope scope(cuda, port_->context());
  for (cuda::Stream stream : {out_stream_, in_stream_})
    if (stream) {
      cuda.stream_synchronize(stream);
      cuda.stream_destroy(stream);
    }
  for (Ring* ring : {&out_, &in_})
    for (const Buffer& buffer : ring->all)
      if (buffer.copied) cuda.event_destroy(buffer.copied);
}

void Carrier::set_share(std::uint32_t number, std::byte* data, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (number >= shares_.size()) {
    shares_.resize(number + 1);
    share_bytes_.resize(number + 1);
    is_forgotten_.resize(number + 1);
  }
  shares_[number] = data;
  share_bytes_[number] = bytes;
}

void Carrier::forget_share(std::uint32_t number) {
  {
    const std::scoped_lock lock(mutex_);
    if (number >= shares_.size()) return;
    shares_[number] = nullptr;
    is_forgotten_[number] = true;
  }
  // What is on its way to it. The stream waits for nothing but copies.
  const cuda::ContextScope scope(port_->functions(), port_->context());
  port_->functions().stream_synchronize(in_stream_);
}

void Carrier::stop() noexcept {
  if (!thread_.joinable()) return;
  ending_.store(true);
  thread_.join();
}

Result<> Carrier::drain() {
  const auto until = [&](auto&& ready) -> Result<> {
    for (;;) {
      ISTHMUS_TRY(port_->check());
      {
        const std::scoped_lock lock(mutex_);
        if (ready()) return {};
      }
      ::nanosleep(&nap_length, nullptr);
    }
  };
  // Of a look that has begun later than this, for all that was asked for before.
  const std::uint64_t fresh = [&] {
    const std::scoped_lock lock(mutex_);
    return looks_ + 2;
  }();
  ISTHMUS_TRY(until([&] { return looks_ >= fresh && is_idle_; }));
  std::vector<std::uint64_t> expected(sent_.size());
  ISTHMUS_TRY(check_mpi(PMPI_Alltoall(sent_.data(), 1, MPI_UINT64_T, expected.data(), 1, MPI_UINT64_T, comm_),
                        "processes of a port do not meet"));
  ISTHMUS_TRY(until([&] { return done_ == expected; }));
  const cuda::ContextScope scope(port_->functions(), port_->context());
  if (const cuda::Status status = port_->functions().stream_synchronize(in_stream_);
      status != cuda::Status::success)
    return cuda::fail(port_->functions(), status, "wait for a stream");
  return check_mpi(PMPI_Barrier(comm_), "processes of a port do not meet");
}

void Carrier::run() noexcept {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = Clock::now();
  while (!ending_.load(std::memory_order_acquire) && port_->check()) {
    Result<bool> moved = false;
    try {
      const cuda::ContextScope scope(port_->functions(), port_->context());
      moved = look();
    } catch (const std::exception& error) {
      moved = fail(ErrorClass::no_mem, error.what());
    }
    if (!moved) {
      fail_for_good(std::move(moved).error());
      break;
    }
    if (has_left_ && all_have_left()) break;
    if (*moved)
      last = Clock::now();
    else if (Clock::now() - last < before_napping)
      ::sched_yield();
    else
      ::nanosleep(&nap_length, nullptr);
  }
  give_up();
  {
    // The program's memory is let go of. The streams wait for nothing but copies.
    const cuda::ContextScope scope(port_->functions(), port_->context());
    for (cuda::Stream stream : {out_stream_, in_stream_})
      port_->functions().stream_synchronize(stream);
  }
  port_->close();
  over_.store(true, std::memory_order_release);
}

/// Of messages that a process's death has ended, the death is the reason, and all others see it themselves.
void Carrier::fail_for_good(Error why) noexcept {
  port_->look_for_losses();
  if (!port_->check()) return;
  port_->fail_for_good(std::move(why));
  Result<> told;
  try {
    told = say_to_all(Kind::failed);
  } catch (const std::bad_alloc&) {
    told = std::unexpected(Error(ErrorClass::no_mem));
  }
  if (!told) warn("a port has failed, and other processes cannot be told: what they wait for will not come");
}

Result<bool> Carrier::look() {
  if (hearing_ == MPI_REQUEST_NULL) ISTHMUS_TRY(listen());
  // Read first: what was asked for before the port left is taken still.
  const bool leaves = leaving_.load(std::memory_order_acquire);
  bool moved = false;
  for (const auto step : {&Carrier::take_requests, &Carrier::take_orders, &Carrier::end_orders,
                          &Carrier::send_chunks, &Carrier::receive_chunks, &Carrier::land_chunks}) {
    Result<bool> result = (this->*step)();
    if (!result) return result;
    moved = moved || *result;
  }
  const bool is_idle = port_->is_idle();
  if (leaves && !has_left_ && is_idle) {
    ISTHMUS_TRY(say_to_all(Kind::left));
    has_left_ = true;
  }
  const std::scoped_lock lock(mutex_);
  is_idle_ = is_idle && orders_.empty();
  ++looks_;
  return moved;
}

Result<> Carrier::say_to_all(Kind kind) {
  for (std::size_t i = 0; i < ranks_; ++i)
    if (static_cast<int>(i) != rank_) ISTHMUS_TRY(send_order(static_cast<int>(i), {.kind = kind}));
  return {};
}

/// And nothing is on its way any more. Their bytes come apart from their orders, so they may come later.
bool Carrier::all_have_left() const {
  return others_left_ == ranks_ - 1 && orders_.empty() && leaving_bytes_.empty() && out_.used == 0 &&
         in_.used == 0 && std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.coming.empty(); });
}

// --- what this process asks for

Result<bool> Carrier::take_requests() {
  if (has_left_) return false;
  return port_->take_requests(*this);
}

Result<> Carrier::begin(int rank, const Order& order, cuda::Address local, std::uint64_t number) {
  const auto to = static_cast<std::size_t>(rank);
  if (rank < 0 || to >= ranks_)
    return fail(ErrorClass::rank,
                fmt::format("{}'s request names a rank that the port has not", port_->limits().asks));
  if (order.kind != Kind::put && order.kind != Kind::get && order.kind != Kind::signal)
    return fail(ErrorClass::intern,
                fmt::format("{}'s request is for nothing that there is", port_->limits().asks));
  ISTHMUS_TRY(send_order(rank, order));
  {
    const std::scoped_lock lock(mutex_);
    ++sent_[to];
  }
  if (order.kind == Kind::put && order.bytes > 0)
    leaving_bytes_.push_back(
        {.number = number, .to = rank, .tag = put_tag, .from = local, .bytes = order.bytes});
  else if (order.kind == Kind::get && order.bytes > 0)
    lanes_[ranks_ + to].coming.push_back(
        {.number = number, .local = local, .bytes = order.bytes, .order = {}});
  else
    return port_->end(*this, number);
  return {};
}

Result<> Carrier::send_order(int rank, const Order& order) {
  Sent sent{.order = std::make_unique<Order>(order)};
  ISTHMUS_TRY(
      check_mpi(PMPI_Isend(sent.order.get(), sizeof(Order), MPI_BYTE, rank, order_tag, comm_, &sent.message),
                "a request of a port"));
  orders_.push_back(std::move(sent));
  return {};
}

Result<bool> Carrier::end_orders() {
  bool moved = false;
  while (!orders_.empty()) {
    Result<bool> over = has_ended(orders_.front().message);
    if (!over) return over;
    if (!*over) break;
    orders_.pop_front();
    moved = true;
  }
  return moved;
}

// --- orders of other processes

Result<> Carrier::listen() {
  return check_mpi(PMPI_Irecv(&heard_, sizeof heard_, MPI_BYTE, MPI_ANY_SOURCE, order_tag, comm_, &hearing_),
                   "other processes' requests");
}

Result<bool> Carrier::take_orders() {
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

/// Where its bytes lie, of a get.
Result<cuda::Address> Carrier::check_order(const Order& order) {
  carry::Limits limits = port_->limits();
  const std::scoped_lock lock(mutex_);
  limits.shares = share_bytes_;
  ISTHMUS_TRY(carry::check(order, limits));
  if (order.kind == Kind::get && order.bytes > 0 && is_forgotten_[order.share])
    return fail(ErrorClass::arg, fmt::format("{} gets from share {}, which there is not any more: {}",
                                             limits.asks, order.share, limits.late));
  return order.kind == Kind::get ? address_of(shares_[order.share]) + order.offset : 0;
}

Result<> Carrier::obey(int source, const Order& order) {
  if (order.kind == Kind::failed)
    return fail(
        ErrorClass::other,
        fmt::format("rank {} of the port can carry nothing any more: there, the next call says why", source));
  if (order.kind == Kind::left) {
    ++others_left_;
    return {};
  }
  ISTHMUS_TRY(check_order(order));
  lanes_[static_cast<std::size_t>(source)].coming.push_back(
      {.number = 0, .bytes = order.kind == Kind::put ? order.bytes : 0, .order = order});
  return {};
}

// --- bytes

Result<> Carrier::copy(cuda::Address to, cuda::Address from, std::size_t bytes, cuda::Stream stream,
                       cuda::Event event) const {
  const cuda::Functions& cuda = port_->functions();
  cuda::Status status = cuda.copy_async(to, from, bytes, stream);
  if (status == cuda::Status::success) status = cuda.event_record(event, stream);
  if (status == cuda::Status::success) return {};
  return cuda::fail(cuda, status, "copy what is put or got through a proxy");
}

Result<bool> Carrier::is_copied(cuda::Event event) const {
  const cuda::Status status = port_->functions().event_query(event);
  if (status == cuda::Status::success) return true;
  if (status == cuda::Status::not_ready) return false;
  return std::unexpected(
      cuda::fail(port_->functions(), status, "copy what is put or got through a proxy").error());
}

/// Copied to a buffer, then sent: both in the order in which they were asked for, by which the other side
/// tells the chunks.
Result<bool> Carrier::send_chunks() {
  bool moved = false;
  while (!leaving_bytes_.empty() && out_.used < buffers) {
    Leaving& next = leaving_bytes_.front();
    Buffer& buffer = out_.at(out_.used);
    buffer.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(chunk, next.bytes - left_));
    buffer.out = next;
    ISTHMUS_TRY(copy(address_of(buffer.data), next.from + left_, buffer.bytes, out_stream_, buffer.copied));
    ++out_.used;
    left_ += buffer.bytes;
    buffer.is_last = left_ == next.bytes;
    if (buffer.is_last) {
      leaving_bytes_.pop_front();
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
                          "what a port has put"));
    // The program's memory is not read any more.
    ++out_.sending;
    if (buffer.is_last && buffer.out.number != 0) ISTHMUS_TRY(port_->end(*this, buffer.out.number));
    moved = true;
  }
  while (out_.sending > 0) {
    Result<bool> over = has_ended(out_.at(0).message);
    if (!over) return over;
    if (!*over) break;
    out_.first = (out_.first + 1) % buffers;
    --out_.sending;
    --out_.used;
    moved = true;
  }
  return moved;
}

Result<bool> Carrier::receive_chunks() {
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
Result<bool> Carrier::receive_chunk(Lane& lane) {
  int is_there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  ISTHMUS_TRY(check_mpi(PMPI_Improbe(lane.source, lane.tag, comm_, &is_there, &message, MPI_STATUS_IGNORE),
                        "what a port has put"));
  if (is_there == 0) return false;
  Coming& next = lane.coming.front();
  Buffer& buffer = in_.at(in_.used);
  buffer.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(chunk, next.bytes - lane.begun));
  buffer.in = next;
  buffer.begun = lane.begun;
  ISTHMUS_TRY(
      check_mpi(PMPI_Imrecv(buffer.data, static_cast<int>(buffer.bytes), MPI_BYTE, &message, &buffer.message),
                "what a port has put"));
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
Result<bool> Carrier::land_chunks() {
  bool moved = false;
  while (in_.sending < in_.used) {
    Buffer& buffer = in_.at(in_.sending);
    if (buffer.bytes > 0) {
      Result<bool> over = has_ended(buffer.message);
      if (!over) return over;
      if (!*over) break;
    }
    ISTHMUS_TRY(land(buffer));
    ++in_.sending;
    moved = true;
  }
  while (in_.sending > 0) {
    Buffer& buffer = in_.at(0);
    Result<bool> copied = is_copied(buffer.copied);
    if (!copied) return copied;
    if (!*copied) break;
    const std::uint64_t number = buffer.is_last ? buffer.in.number : 0;
    if (buffer.is_last && number == 0) {
      // What that process has put before it gets is there now, and so it gets it.
      if (buffer.in.order.kind == Kind::get) ISTHMUS_TRY(give(buffer.out.to, buffer.in.order));
      const std::scoped_lock lock(mutex_);
      ++done_[static_cast<std::size_t>(buffer.out.to)];
    }
    in_.first = (in_.first + 1) % buffers;
    --in_.sending;
    --in_.used;
    moved = true;
    if (number != 0) ISTHMUS_TRY(port_->end(*this, number));
  }
  return moved;
}

/// What another process gets.
Result<> Carrier::give(int to, const Order& order) {
  if (order.bytes == 0) return {};
  // Again: it may have been forgotten meanwhile.
  auto from = check_order(order);
  if (!from) return std::unexpected(std::move(from).error());
  leaving_bytes_.push_back({.number = 0, .to = to, .tag = get_tag, .from = *from, .bytes = order.bytes});
  return {};
}

Result<> Carrier::land(Buffer& buffer) {
  const Coming& in = buffer.in;
  {
    // Held until it is on its way: `forget_share` waits for that.
    const std::scoped_lock lock(mutex_);
    cuda::Address to = in.local;
    if (in.number == 0 && buffer.bytes > 0 && shares_[in.order.share])
      to = address_of(shares_[in.order.share]) + in.order.offset;
    if (buffer.bytes > 0 && to != 0)
      ISTHMUS_TRY(copy(to + buffer.begun, address_of(buffer.data), buffer.bytes, in_stream_, buffer.copied));
    else if (const cuda::Status status = port_->functions().event_record(buffer.copied, in_stream_);
             status != cuda::Status::success)
      return cuda::fail(port_->functions(), status, "record an event");
  }
  if (!buffer.is_last || in.order.signals == Signal::none) return {};
  return port_->set_signal(in.order, in_stream_);
}

/// Orders with no bytes that come take a buffer as well, for their place among the others.
Result<bool> Carrier::end_signals(Lane& lane) {
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

/// What is under way to or from memory of the proxy's; it is not freed as long as MPI may use it.
void Carrier::give_up() noexcept {
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
