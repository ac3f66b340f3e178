#include "kernels/courier.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {

namespace {

/// How often the driver is asked whether the GPU is well while a copy does not come.
constexpr std::chrono::milliseconds between_questions{1};
/// Looks at what has not come, for one at the clock, which takes 25 ns.
constexpr std::uint32_t looks_per_clock = 64;

std::uint64_t read(std::uint64_t& word) noexcept {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

std::uint64_t address_of(const std::byte* pointer) noexcept {
  return reinterpret_cast<std::uint64_t>(pointer);
}

/// So that a courier comes before what the program has waiting. The driver takes the highest that there is.
constexpr int highest_priority = -1000;

}  // namespace

Result<std::unique_ptr<Courier>> Courier::make(cuda::PrimaryContexts& contexts, GpuKernels& kernels,
                                               cuda::Device device, Patience patience) {
  if (const std::string& trouble = kernels.trouble(device); !trouble.empty())
    return fail(ErrorClass::unsupported_operation, trouble);
  auto context = contexts.of(device);
  if (!context) return std::unexpected(std::move(context).error());
  const cuda::Functions& functions = contexts.functions();
  const cuda::ContextScope scope(functions, *context);
  GpuStream where{.device = device};
  cuda::Status status =
      functions.stream_create_with_priority(&where.stream, cuda::stream_non_blocking, highest_priority);
  if (status != cuda::Status::success) return cuda::fail(functions, status, "make a stream");
  void* memory = nullptr;
  status = functions.host_allocate(&memory, sizeof(kernel::CourierBoard), cuda::host_portable);
  if (status != cuda::Status::success) {
    functions.stream_destroy(where.stream);
    return cuda::fail(functions, status, "pin memory for a courier");
  }
  auto* const board = new (memory) kernel::CourierBoard{};
  try {
    return std::unique_ptr<Courier>(new Courier(contexts, kernels, where, *board, patience));
  } catch (...) {
    functions.stream_destroy(where.stream);
    functions.host_free(memory);
    throw;
  }
}

Courier::~Courier() {
  const auto context = contexts_.of(where_.device);
  if (!context || !contexts_.is_alive(where_.device, life_)) return;
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, *context);
  if (is_out()) {
    std::atomic_ref(board_.recalled).store(number_, std::memory_order_release);
    ++posted_;
    write_copy(0, 0, 0);
  }
  functions.stream_synchronize(where_.stream);
  functions.stream_destroy(where_.stream);
  functions.host_free(&board_);
}

std::uint64_t Courier::delivered() const noexcept {
  return read(board_.delivered);
}

std::uint64_t Courier::settled() const noexcept {
  return std::max(delivered(), returned_);
}

/// What has not been delivered never will be.
void Courier::give_back() noexcept {
  first_returned_ = settled() + 1;
  returned_ = posted_;
  unheard_ = returned_ + 1 - first_returned_;
}

bool Courier::is_out() const noexcept {
  return number_ != 0 && !is_recalled_ && read(board_.left) != number_;
}

namespace {

/// No parcel can name what lies there.
bool is_beyond(std::uint64_t address) noexcept {
  return address >= kernel::order_bit;
}

}  // namespace

bool Courier::has_room() const noexcept {
  // One slot is for what tells it to leave.
  return unheard_ == 0 && posted_ - settled() < kernel::courier_slots - 1;
}

bool Courier::can_take(const std::byte* to, const std::byte* from, std::size_t bytes) const noexcept {
  return has_room() && bytes > 0 && bytes <= most_bytes && !is_beyond(address_of(to) | address_of(from));
}

bool Courier::can_take(const kernel::MeetOrder& order) const noexcept {
  const auto ends = [](const kernel::Byte* place) { return reinterpret_cast<std::uint64_t>(place); };
  return has_room() && last_order_ <= settled() && order.bytes > 0 &&
         order.bytes <= kernel::most_order_bytes && !is_beyond(ends(order.send) | ends(order.receive));
}

// Every line is written anew, also those that nobody reads: a word that is left from long ago may have the
// mark of this parcel, since marks come again.
void Courier::write(const kernel::ParcelSlot& parcel) noexcept {
  kernel::ParcelSlot& slot = board_.parcels[posted_ % kernel::courier_slots];
  for (std::uint32_t line = kernel::parcel_lines; line-- > 0;) {
    std::atomic_ref(slot.lines[line].from).store(parcel.lines[line].from, std::memory_order_release);
    std::atomic_ref(slot.lines[line].to).store(parcel.lines[line].to, std::memory_order_release);
  }
}

void Courier::write_copy(std::uint64_t from, std::uint64_t to, std::uint32_t bytes) noexcept {
  const kernel::Parcel first = kernel::make_parcel(posted_, from, to, bytes);
  const kernel::Parcel rest = kernel::make_parcel(posted_, 0, 0, 0);
  write({{first, rest, rest}});
}

Result<std::uint64_t> Courier::take(std::byte* to, const std::byte* from, std::size_t bytes) {
  ++posted_;
  const bool was_out = is_out();
  write_copy(address_of(from), address_of(to), static_cast<std::uint32_t>(bytes));
  if (was_out) [[likely]] {
    ++counts_.parcels;
    return posted_;
  }
  return hand_over();
}

Result<std::uint64_t> Courier::take(const kernel::MeetOrder& order, const std::byte* table,
                                    std::uint64_t table_id) {
  ++posted_;
  const bool was_out = is_out();
  last_order_ = posted_;
  write(kernel::make_order(posted_, order, address_of(table), table_id));
  ++counts_.orders;
  if (was_out) [[likely]] {
    ++counts_.parcels;
    return posted_;
  }
  auto taken = hand_over();
  if (!taken) --counts_.orders;
  return taken;
}

/// Sends a courier out for what has just been written.
Result<std::uint64_t> Courier::hand_over() {
  ++counts_.parcels;
  // Of this one the caller hears now.
  const auto take_back = [this] {
    give_back();
    --unheard_;
    --counts_.parcels;
  };
  try {
    if (Result<> sent = send_out(); !sent) {
      take_back();
      return std::unexpected(std::move(sent).error());
    }
  } catch (...) {
    take_back();
    throw;
  }
  return posted_;
}

Result<> Courier::send_out() {
  const kernel::CourierArguments work{.board = &board_,
                                      .number = number_ + 1,
                                      .next = settled() + 1,
                                      .patience = static_cast<std::uint64_t>(patience_.idle.count())};
  ISTHMUS_TRY(kernels_.send_out(where_, work));
  ++number_;
  is_recalled_ = has_begun_ = false;
  sent_out_ = asked_ = Clock::now();
  ++counts_.sent_out;
  return {};
}

Result<Courier::Fate> Courier::look_after(std::uint64_t number) {
  if (number <= returned_) {
    if (number < first_returned_) return Fate::delivered;
    --unheard_;
    return Fate::returned;
  }
  if (read(board_.left) == number_) {
    // What it has delivered it has told before.
    if (delivered() >= number) return Fate::delivered;
    ++counts_.left;
    ISTHMUS_TRY(send_out());
    return Fate::waiting;
  }
  if (!has_begun_) {
    has_begun_ = read(board_.begun) == number_;
    if (!has_begun_ && Clock::now() - sent_out_ > patience_.begin) recall();
    return Fate::waiting;
  }
  if (++looks_ % looks_per_clock != 0) return Fate::waiting;
  const auto now = Clock::now();
  if (now - asked_ < between_questions) return Fate::waiting;
  asked_ = now;
  const cuda::Functions& functions = contexts_.functions();
  const cuda::RelaxedCapture relaxed(functions);
  const cuda::Status status = functions.stream_query(where_.stream);
  if (status == cuda::Status::success || status == cuda::Status::not_ready) return Fate::waiting;
  return cuda::fail(functions, status, "finish a courier's copy");
}

/// Either it sees that it is recalled when it begins, or it is seen here that it has begun.
void Courier::recall() noexcept {
  std::atomic_ref(board_.recalled).store(number_, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  has_begun_ = true;
  if (read(board_.begun) == number_) return;
  is_recalled_ = true;
  give_back();
  ++counts_.recalled;
}

}  // namespace isthmus
