// The library's kernels on the emulated driver: the same functions that a GPU runs, for one thread after the
// other.
#include "kernels/body/copy.hpp"
#include "kernels/body/courier.hpp"
#include "kernels/body/mail.hpp"
#include "kernels/body/meet/packets.hpp"
#include "kernels/body/meet/pieces.hpp"
#include "kernels/body/move.hpp"
#include "kernels/body/order_part.hpp"
#include "kernels/body/put.hpp"
#include "kernels/body/reduce.hpp"
#include "kernels/body/reduce_list.hpp"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <initializer_list>

#include "emulated_cuda.h"

namespace isthmus::kernel {
namespace {

constexpr int illegal_address = 700;

/// Where the emulated GPU has what the kernel was told to lie at `address`; false if that is nowhere.
template <class T>
bool see(T*& address) {
  address = static_cast<T*>(emulated_cuda_view(reinterpret_cast<unsigned long long>(address)));
  return address != nullptr;
}

template <class Arguments, void (*body)(const Arguments&, const Thread&)>
int run(const EmulatedLaunch& launch, const Arguments& work) {
  Thread thread{.index = 0, .threads = launch.block[0], .block = 0, .blocks = launch.grid[0]};
  for (thread.block = 0; thread.block < thread.blocks; ++thread.block)
    for (thread.index = 0; thread.index < thread.threads; ++thread.index)
      body(work, thread);
  return 0;
}

template <class T, class Operation>
int run_reduce(const EmulatedLaunch* launch) {
  auto work = *static_cast<const ReduceArguments*>(launch->parameters[0]);
  for (std::uint32_t i = 0; i < work.source_count; ++i)
    if (!see(work.sources[i])) return illegal_address;
  for (std::uint32_t i = 0; i < work.result_count; ++i)
    if (!see(work.results[i])) return illegal_address;
  return run<ReduceArguments, reduce<T, Operation>>(*launch, work);
}

int run_copy(const EmulatedLaunch* launch) {
  auto work = *static_cast<const CopyArguments*>(launch->parameters[0]);
  for (std::uint32_t i = 0; i < work.count; ++i)
    if (!see(work.pieces[i].from) || !see(work.pieces[i].to)) return illegal_address;
  return run<CopyArguments, copy>(*launch, work);
}

template <class Unit, bool many>
int run_move(const EmulatedLaunch* launch) {
  auto work = *static_cast<const MoveArguments*>(launch->parameters[0]);
  for (Shape* shape : {&work.from, &work.to})
    if (!see(shape->base) || (shape->runs && !see(shape->runs))) return illegal_address;
  return run<MoveArguments, move<Unit, many>>(*launch, work);
}

/// An order, by one thread; false if an address is none.
bool carry_out(OrderArguments& work) {
  if (!see(work.table.ended)) return false;
  for (std::uint32_t i = 0; i < work.table.members; ++i)
    if (!see(work.table.rooms[i])) return false;
  MeetOrder& order = work.order;
  if ((order.send && !see(order.send)) || (order.receive && !see(order.receive))) return false;
  static_cast<void>(OrderPart(work.table, order, 0, 1).run());
  return true;
}

int run_order(const EmulatedLaunch* launch) {
  auto work = *static_cast<const OrderArguments*>(launch->parameters[0]);
  if (launch->block[0] != order_threads || launch->grid[0] != 1) return illegal_address;
  if (!see(work.done) || !carry_out(work)) return illegal_address;
  std::atomic_ref(*work.done).store(work.order.round, std::memory_order_release);
  return 0;
}

/// A thread that does what the lanes of a courier's warp do. It yields between looks, because there may be
/// more couriers than cores.
struct Lone {
  [[nodiscard]] static std::uint64_t ask(const std::uint64_t& word) {
    return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_seq_cst);
  }
  [[nodiscard]] static bool begin(const CourierArguments& work) {
    std::atomic_ref(work.board->begun).store(work.number, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return ask(work.board->recalled) < work.number;
  }
  [[nodiscard]] static ParcelSlot look(const ParcelSlot* slot) {
    ::sched_yield();
    ParcelSlot seen;
    for (std::uint32_t line = 0; line < parcel_lines; ++line)
      seen.lines[line] = {ask(slot->lines[line].from), ask(slot->lines[line].to)};
    return seen;
  }
  [[nodiscard]] static Parcel agree(const ParcelSlot& seen, std::uint32_t line) { return seen.lines[line]; }
  [[nodiscard]] static std::uint64_t now() {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  }
  [[nodiscard]] static Byte* see(std::uint64_t address) {
    return static_cast<Byte*>(emulated_cuda_view(address));
  }
  template <class T>
  [[nodiscard]] T load(const Byte* from) const {
    return *reinterpret_cast<const T*>(from);
  }
  void bring(Byte* to, const Byte* from, std::uint32_t bytes) const {
    const std::uint32_t lanes = bytes <= most_alone ? courier_lanes : courier_threads;
    for (std::uint32_t lane = 0; lane < lanes; ++lane)
      carry(*this, to, from, bytes, {lane, lanes});
  }
  [[nodiscard]] static bool obey(const OrderParcel& parcel) {
    const Byte* const table = see(parcel.table);
    if (!table) return false;
    OrderArguments work{};
    std::memcpy(&work.table, table, sizeof work.table);
    work.order = parcel.order;
    work.order.send = reinterpret_cast<Byte*>(parcel.send);
    work.order.receive = reinterpret_cast<Byte*>(parcel.receive);
    return carry_out(work);
  }
  static void tell(std::uint64_t* word, std::uint64_t value) {
    std::atomic_ref(*word).store(value, std::memory_order_release);
  }
};

int run_courier(const EmulatedLaunch* launch) {
  auto work = *static_cast<const CourierArguments*>(launch->parameters[0]);
  if (launch->block[0] != courier_threads || launch->grid[0] != 1 || !see(work.board)) return illegal_address;
  if (Lone::begin(work)) return serve(work, Lone{}) ? 0 : illegal_address;
  Lone::tell(&work.board->left, work.number);
  return 0;
}

/// A block is one thread. They run one behind the other, as they may: none waits for another one here.
template <void (*body)(const MeetArguments&)>
int run_meeting(const EmulatedLaunch* launch) {
  auto work = *static_cast<const MeetArguments*>(launch->parameters[0]);
  if (!see(work.ended)) return illegal_address;
  for (std::uint32_t i = 0; i < work.members; ++i) {
    if (!see(work.rooms[i])) return illegal_address;
    for (MeetSide* side : {&work.out[i], &work.in[i]})
      if (side->bytes > 0 && !see(side->at)) return illegal_address;
  }
  if (work.result.bytes > 0 && !see(work.result.at)) return illegal_address;
  for (unsigned block = 0; block < launch->grid[0]; ++block) {
    isthmus::device::twin::place() = {block, launch->grid[0]};
    body(work);
  }
  return 0;
}

int run_put(const EmulatedLaunch* launch) {
  auto work = *static_cast<const PutArguments*>(launch->parameters[0]);
  for (std::uint32_t i = 0; i < work.piece_count; ++i)
    if (!see(work.pieces[i].from) || !see(work.pieces[i].to)) return illegal_address;
  for (std::uint32_t i = 0; i < work.word_count; ++i)
    if (!see(work.words[i].at)) return illegal_address;
  if (launch->grid[0] > 1 && !see(work.done)) return illegal_address;
  for (unsigned block = 0; block < launch->grid[0]; ++block) {
    isthmus::device::twin::place() = {block, launch->grid[0]};
    put(work);
  }
  return 0;
}

int run_wait(const EmulatedLaunch* launch) {
  auto work = *static_cast<const WaitArguments*>(launch->parameters[0]);
  if (!see(work.ended)) return illegal_address;
  for (std::uint32_t i = 0; i < work.count; ++i)
    if (!see(work.words[i])) return illegal_address;
  wait_for_words(work);
  return 0;
}

template <void (*body)(const MailArguments&)>
int run_mail(const EmulatedLaunch* launch) {
  auto work = *static_cast<const MailArguments*>(launch->parameters[0]);
  if (!see(work.own) || !see(work.theirs)) return illegal_address;
  if (work.data.bytes > 0 && !see(work.data.at)) return illegal_address;
  if (work.told && !see(work.told)) return illegal_address;
  isthmus::device::twin::view = &emulated_cuda_view;
  isthmus::device::twin::place() = {0, 1};
  body(work);
  return 0;
}

constexpr size_t mail_bytes[] = {sizeof(MailArguments), 0};
constexpr size_t put_bytes[] = {sizeof(PutArguments), 0};
constexpr size_t wait_bytes[] = {sizeof(WaitArguments), 0};
constexpr size_t order_bytes[] = {sizeof(OrderArguments), 0};
constexpr size_t meet_bytes[] = {sizeof(MeetArguments), 0};
constexpr size_t courier_bytes[] = {sizeof(CourierArguments), 0};
constexpr size_t reduce_bytes[] = {sizeof(ReduceArguments), 0};
constexpr size_t copy_bytes[] = {sizeof(CopyArguments), 0};
constexpr size_t move_bytes[] = {sizeof(MoveArguments), 0};

}  // namespace
}  // namespace isthmus::kernel

using namespace isthmus::kernel;

#define ISTHMUS_TWIN_(operation, type, operation_name, type_name) \
  {"isthmus_" #operation_name "_" #type_name, run_reduce<type, operation>, reduce_bytes},
#define ISTHMUS_MEET_TWIN_(operation, type, operation_name, type_name) \
  {"isthmus_meet_" #operation_name "_" #type_name, run_meeting<meet_reduce<type, operation>>, meet_bytes},
#define ISTHMUS_MOVE_TWINS_(type, bytes)                       \
  {"isthmus_move_" #bytes, run_move<type, false>, move_bytes}, \
      {"isthmus_move_many_" #bytes, run_move<type, true>, move_bytes},

extern "C" __attribute__((visibility("default"))) const EmulatedTwin emulated_twins[] = {
    ISTHMUS_REDUCE_KERNELS(ISTHMUS_TWIN_) ISTHMUS_REDUCE_KERNELS(ISTHMUS_MEET_TWIN_)
        ISTHMUS_MOVE_KERNELS(ISTHMUS_MOVE_TWINS_){"isthmus_copy", run_copy, copy_bytes},
    {"isthmus_send_mail", run_mail<send_mail>, mail_bytes},
    {"isthmus_receive_mail", run_mail<receive_mail>, mail_bytes},
    {"isthmus_put", run_put, put_bytes},
    {"isthmus_wait", run_wait, wait_bytes},
    {"isthmus_order", run_order, order_bytes},
    {"isthmus_meet", run_meeting<meet_move>, meet_bytes},
    {"isthmus_meet_in_pieces", run_meeting<meet_in_pieces>, meet_bytes},
    {"isthmus_courier", run_courier, courier_bytes},
    {nullptr, nullptr, nullptr}};
