#pragma once

#include <isthmus/device_mail.cuh>
#include <isthmus/fuse.cuh>
#if !defined(__CUDACC__)
#include <time.h>
#endif

/// What the kernels of gpu_device do, for nvcc and, as twins on the emulated driver, for the host's compiler.
namespace testing_device {

using namespace isthmus::device;

enum Scope : u32 { by_thread, by_warp, by_block, by_grid };
enum Way : u32 { put_with_signal, put_then_signal, get_after_signal, word, signal_first };

/// Rounds with a peer, each of which puts what it has just written, and looks at what has come as soon as it
/// is told.
struct ExchangeWork {
  DevicePort port;
  unsigned char* out;  ///< two halves, as the share
  unsigned char* in;   ///< of the share
  u64* wrong;          ///< counts bytes
  u64 bytes;           ///< of a half
  u64 offset;          ///< of the bytes in a half
  u32 share;
  u32 rounds;
  u32 first;  ///< round: signals count on from launch to launch
  Scope scope;
  Way way;
  int peer;
};

ISTHMUS_DEVICE_FUNCTION unsigned char byte_of(int rank, u32 round, u64 i) {
  return static_cast<unsigned char>(i * 7 + i / 251 + round * 31 + static_cast<u32>(rank) * 101 + 1);
}

ISTHMUS_DEVICE_FUNCTION void count_wrong(u64* wrong) {
  detail::take_number(wrong);
}

/// What nobody but a test does: the signal, a while, then the bytes.
ISTHMUS_DEVICE_FUNCTION void dawdle() {
#if defined(__CUDACC__)
  for (int i = 0; i < 200; ++i)
    __nanosleep(1000);
#else
  constexpr timespec while_others_look{0, 2'000'000};
  ::nanosleep(&while_others_look, nullptr);
#endif
}

template <class By>
ISTHMUS_DEVICE_FUNCTION bool exchange_round(const ExchangeWork& work, By by, u32 round) {
  const DevicePort& port = work.port;
  const u64 half = (round % 2) * (work.bytes + work.offset);
  unsigned char* const mine = work.out + half + work.offset;
  const Place theirs{work.share, work.peer, half + work.offset};
  if (work.way == word) {
    // Two in turn: the peer sets one again when it has heard of the other, so when this has been read.
    const u32 signal = 2 + round % 2;
    u64 value = 0;
    if (!port.signal_with_word(by, work.peer, signal, round, round * 1000 + static_cast<u32>(port.rank())))
      return false;
    if (!port.wait_word(by, signal, round, value)) return false;
    if (value != round * 1000 + static_cast<u32>(work.peer)) count_wrong(see(work.wrong));
    return true;
  }
  unsigned char* const written = see(mine);
  for (u64 i = by.index(); i < work.bytes; i += by.size())
    written[i] = byte_of(port.rank(), round, i);
  by.sync();
  switch (work.way) {
    case put_then_signal:
      if (!port.put(by, theirs, mine, work.bytes) || !port.signal(by, work.peer, 1, round)) return false;
      break;
    case get_after_signal:
      if (!port.signal(by, work.peer, 1, round)) return false;
      break;
    case signal_first:
      if (!port.signal(by, work.peer, 1, round)) return false;
      // In turn, so that the other one looks meanwhile.
      if ((round + static_cast<u32>(port.rank())) % 2 == 0) dawdle();
      if (!port.put(by, theirs, mine, work.bytes)) return false;
      break;
    default:
      if (!port.put_with_signal(by, theirs, mine, work.bytes, 1, round)) return false;
  }
  if (!port.wait(by, 1, round)) return false;
  unsigned char* const came = work.in + half + work.offset;
  if (work.way == get_after_signal && (!port.get(by, came, theirs, work.bytes) || !port.flush(by)))
    return false;
  by.sync();
  const unsigned char* const looked = see(came);
  for (u64 i = by.index(); i < work.bytes; i += by.size())
    if (looked[i] != byte_of(work.peer, round, i)) count_wrong(see(work.wrong));
  by.sync();
  return true;
}

/// A grid does not meet: its blocks put together, and one of them waits and looks.
ISTHMUS_DEVICE_FUNCTION bool exchange_by_grid(const ExchangeWork& work) {
  const u32 round = work.first;
  const u64 half = (round % 2) * (work.bytes + work.offset);
  if (!work.port.put_with_signal(ByGrid{3}, {work.share, work.peer, half + work.offset},
                                 work.out + half + work.offset, work.bytes, 1, round))
    return false;
  // The host writes there again when the grid has ended: the block that was the last one sees to that.
  if (!work.port.flush(ByBlock{})) return false;
  if (block_number() != 0) return true;
  if (!work.port.wait(ByBlock{}, 1, round)) return false;
  const ByBlock by;
  const unsigned char* const looked = see(work.in) + half + work.offset;
  for (u64 i = by.index(); i < work.bytes; i += by.size())
    if (looked[i] != byte_of(work.peer, round, i)) count_wrong(see(work.wrong));
  return true;
}

template <class By>
ISTHMUS_DEVICE_FUNCTION void exchange_by(const ExchangeWork& work, By by) {
  for (u32 i = 0; i < work.rounds; ++i)
    if (!exchange_round(work, by, work.first + i)) return;
  work.port.flush(by);
}

ISTHMUS_DEVICE_FUNCTION void exchange(const ExchangeWork& work) {
  if (work.scope == by_grid) {
    exchange_by_grid(work);
    return;
  }
  if (block_number() != 0) return;
  if (work.scope == by_block) exchange_by(work, ByBlock{});
  if (work.scope == by_warp && ByBlock().index() < 32) exchange_by(work, ByWarp{});
  if (work.scope == by_thread && ByBlock().index() == 0) exchange_by(work, ByThread{});
}

/// An exchange in which no number counts, for a graph: what comes goes out again, and each put waits for the
/// receiver's leave.
struct RelayWork {
  DevicePort port;
  u64* out;
  u64* in;
  u64 count;
  u32 share;
  int peer;
};

ISTHMUS_DEVICE_FUNCTION void relay(const RelayWork& work) {
  const ByBlock by;
  constexpr u32 arrived = 2, may_put = 3;
  if (block_number() != 0) return;
  if (!work.port.signal(by, work.peer, may_put, 1) || !work.port.take(by, may_put, 1)) return;
  if (!work.port.put_with_signal(by, {work.share, work.peer, 0}, work.out, work.count * 8, arrived, 1))
    return;
  if (!work.port.take(by, arrived, 1)) return;
  for (u64 i = by.index(); i < work.count; i += by.size())
    see(work.out)[i] = see(work.in)[i] + 1;
}

/// Team operations in turn, of one block of each process.
struct TeamWork {
  DevicePort port;
  double* values;
  u64* bits;
  u64* seen;  ///< of the share: a word of each process
  u64* wrong;
  u32 share;
  u32 count;
  u32 rounds;
  Scope scope;
};

struct Sum {
  ISTHMUS_DEVICE_FUNCTION double operator()(double a, double b) const { return a + b; }
};
struct Or {
  ISTHMUS_DEVICE_FUNCTION u64 operator()(u64 a, u64 b) const { return a | b; }
};

ISTHMUS_DEVICE_FUNCTION double term(int rank, u32 round, u32 i) {
  return 0.1 * (rank + 1) + i * 0.01 + round;
}

template <class By>
ISTHMUS_DEVICE_FUNCTION bool team_by(const TeamWork& work, By by) {
  const DevicePort& port = work.port;
  for (u32 round = 0; round < work.rounds; ++round) {
    // The bytes before a barrier are seen behind it.
    const u64 mark = round * 100 + static_cast<u32>(port.rank());
    for (int to = 0; to < port.ranks(); ++to) {
      u64* const there =
          static_cast<u64*>(port.address({work.share, to, static_cast<u32>(port.rank()) * sizeof(u64)}));
      if (by.index() == 0) detail::store_word(see(there), mark);
    }
    if (!port.barrier(by)) return false;
    if (by.index() == 0)
      for (int from = 0; from < port.ranks(); ++from)
        if (detail::load_word(see(work.seen) + from) != round * 100 + static_cast<u32>(from))
          count_wrong(see(work.wrong));
    for (u32 i = by.index(); i < work.count; i += by.size()) {
      see(work.values)[i] = term(port.rank(), round, i);
      see(work.bits)[i] = u64{1} << (static_cast<u32>(port.rank()) + i % 32);
    }
    if (!port.allreduce(by, work.values, work.count, Sum{})) return false;
    if (!port.allreduce(by, work.bits, 1, Or{})) return false;
    for (u32 i = by.index(); i < work.count; i += by.size()) {
      double sum = term(0, round, i);
      for (int from = 1; from < port.ranks(); ++from)
        sum = sum + term(from, round, i);
      if (see(work.values)[i] != sum) count_wrong(see(work.wrong));
    }
    if (by.index() == 0 && see(work.bits)[0] != (u64{1} << port.ranks()) - 1) count_wrong(see(work.wrong));
    const int root = static_cast<int>(round) % port.ranks();
    for (u32 i = by.index(); i < work.count; i += by.size())
      see(work.bits)[i] = port.rank() == root ? round * 1000 + i : 0;
    by.sync();
    if (!port.broadcast(by, work.bits, work.count, root)) return false;
    for (u32 i = by.index(); i < work.count; i += by.size())
      if (see(work.bits)[i] != round * 1000 + i) count_wrong(see(work.wrong));
    // Nobody marks again before all have looked.
    if (!port.barrier(by)) return false;
  }
  return true;
}

ISTHMUS_DEVICE_FUNCTION void team(const TeamWork& work) {
  bool ok = true;
  if (work.scope == by_block) ok = team_by(work, ByBlock{});
  if (work.scope == by_warp && ByBlock().index() < 32) ok = team_by(work, ByWarp{});
  if (work.scope == by_thread && ByBlock().index() == 0) ok = team_by(work, ByThread{});
  if (!ok) count_wrong(see(work.wrong));
}

/// Rounds of messages with a peer: all of a round are sent, then received in another order. Each has a place
/// of its own, which is written again when it has been received.
struct MailWork {
  static constexpr u32 messages = 6;  ///< of a round
  static constexpr u32 place = 40'008;

  DevicePort port;
  unsigned char* out;  ///< as the share: a place for each
  unsigned char* in;   ///< a place, and 8 bytes behind it
  u64* wrong;          ///< counts bytes, and messages
  u32 share;
  u32 rounds;
  u32 first;
  Scope scope;
  int peer;
};

ISTHMUS_DEVICE_FUNCTION u64 length_of(u32 message) {
  constexpr u64 lengths[MailWork::messages]{0, 40'000, 13, Messages::most_short, 1025, 8};
  return lengths[message];
}

template <class By>
ISTHMUS_DEVICE_FUNCTION bool receive_one(const MailWork& work, By by, u32 round, u32 message, u32 tag) {
  unsigned char* const in = see(work.in);
  for (u64 i = by.index(); i < MailWork::place; i += by.size())
    in[i] = 0xee;
  by.sync();
  u64 bytes = 0;
  const u64 length = length_of(message);
  if (!Messages(work.port).receive(by, {work.peer, tag, work.in, MailWork::place - 8}, bytes)) return false;
  if (bytes != length) count_wrong(see(work.wrong));
  for (u64 i = by.index(); i < MailWork::place; i += by.size())
    if (in[i] != (i < length ? byte_of(work.peer, round + message, i) : 0xee)) count_wrong(see(work.wrong));
  by.sync();
  return true;
}

template <class By>
ISTHMUS_DEVICE_FUNCTION bool mail_round(const MailWork& work, By by, u32 round) {
  const Messages messages(work.port);
  u64 numbers[MailWork::messages];
  for (u32 message = 0; message < MailWork::messages; ++message) {
    const u64 at = u64{message} * MailWork::place;
    unsigned char* const out = see(work.out) + at;
    for (u64 i = by.index(); i < length_of(message); i += by.size())
      out[i] = byte_of(work.port.rank(), round + message, i);
    by.sync();
    numbers[message] = messages.send(by, {work.peer, message % 3, work.share, at, length_of(message)});
    if (numbers[message] == 0) return false;
  }
  // Of each tag in order; the last may be any.
  constexpr u32 order[]{2, 5, 1, 0, 4};
  for (const u32 message : order)
    if (!receive_one(work, by, round, message, message % 3)) return false;
  if (!receive_one(work, by, round, 3, any_tag)) return false;
  for (u32 message = 0; message < MailWork::messages; ++message)
    if (!messages.wait_sent(by, work.peer, numbers[message])) return false;
  return true;
}

ISTHMUS_DEVICE_FUNCTION void mail(const MailWork& work) {
  bool ok = true;
  for (u32 round = work.first; ok && round < work.first + work.rounds; ++round) {
    if (work.scope == by_block) ok = mail_round(work, ByBlock{}, round);
    if (work.scope == by_warp && ByBlock().index() < 32) ok = mail_round(work, ByWarp{}, round);
    if (work.scope == by_thread && ByBlock().index() == 0) ok = mail_round(work, ByThread{}, round);
  }
  if (!ok) count_wrong(see(work.wrong));
}

/// One call, and what it says.
enum class Call : u32 { put, get, signal, add, wait, test, barrier, take_for_ever, send, receive };
struct CallWork {
  DevicePort port;
  Call call;
  Place place;
  void* memory;
  u64 bytes;
  u32 signal;   ///< or tag
  u64* answer;  ///< 1: true, 2: false
};

ISTHMUS_DEVICE_FUNCTION void call(const CallWork& work) {
  const ByBlock by;
  bool ok = false;
  switch (work.call) {
    case Call::put:
      ok = work.port.put_with_signal(by, work.place, work.memory, work.bytes, work.signal, 1);
      break;
    case Call::get:
      ok = work.port.get(by, work.memory, work.place, work.bytes);
      break;
    case Call::signal:
      ok = work.port.signal(by, work.place.rank, work.signal, 1);
      break;
    case Call::add:
      ok = work.port.signal(by, work.place.rank, work.signal, 5, SignalBy::add);
      break;
    case Call::wait:
      ok = work.port.wait(by, work.signal, 1);
      break;
    case Call::test:
      ok = work.port.test(by, work.signal, 1);
      break;
    case Call::barrier:
      ok = work.port.barrier(by);
      break;
    case Call::take_for_ever:
      ok = work.port.take(by, work.signal, ~0ULL);
      break;
    case Call::send:
      ok = Messages(work.port).send(
               by, {work.place.rank, work.signal, work.place.share, work.place.offset, work.bytes}) != 0;
      break;
    case Call::receive: {
      u64 bytes = 0;
      ok = Messages(work.port).receive(by, {work.place.rank, work.signal, work.memory, work.bytes}, bytes);
      break;
    }
  }
  if (by.index() == 0 && block_number() == 0) *see(work.answer) = ok ? 1 : 2;
}

/// A Jacobi iteration on a row of processes, all steps in one launch: each has `columns` columns of `rows`
/// points, a column of the neighbours' at each side, and a fixed row above and below. Field `step % 2` is
/// read, the other written. A neighbour's column comes into the share, [side][parity][rows], and is unpacked.
struct JacobiWork {
  DevicePort port;
  Fusion fusion;
  double* fields[2];  ///< (rows + 2) x (columns + 2) each
  double* out;        ///< as the share
  double* came;       ///< of the share
  u32 rows, columns;
  u32 share;
  u32 first;  ///< steps before this launch
  bool waits_wrongly;
};

enum Role : u32 { edges, interior, arrivals, unpacks, jacobi_roles };
enum Side : u32 { left, right };

ISTHMUS_DEVICE_FUNCTION void relax(const JacobiWork& work, u32 step, u32 row, u32 column) {
  const double* const now = see(work.fields[step % 2]);
  const u64 pitch = work.columns + 2;
  const u64 at = row * pitch + column;
  see(work.fields[(step + 1) % 2])[at] =
      ((now[at - 1] + now[at + 1]) + (now[at - pitch] + now[at + pitch])) * 0.25;
}

ISTHMUS_DEVICE_FUNCTION bool jacobi_task(const JacobiWork& work, const Task& task, const Crew& crew) {
  const ByBlock by;
  const DevicePort& port = work.port;
  const u32 step = work.first + task.step;
  const u64 pitch = work.columns + 2;
  const int neighbours[2] = {port.rank() - 1, port.rank() + 1};
  const auto is_there = [&](u32 side) { return neighbours[side] >= 0 && neighbours[side] < port.ranks(); };
  const auto part = [&](u32 side) { return (side * 2 + step % 2) * u64{work.rows}; };
  constexpr u32 wrote_before[]{edges, interior, unpacks};
  switch (task.role) {
    case edges: {
      for (const u32 role : wrote_before)
        if (!crew.wait_for_last(role)) return false;
      const u32 side = task.index, column = side == left ? 1 : work.columns;
      for (u32 row = 1 + by.index(); row <= work.rows; row += by.size()) {
        relax(work, step, row, column);
        see(work.out)[part(side) + row - 1] = see(work.fields[(step + 1) % 2])[row * pitch + column];
      }
      by.sync();
      if (!is_there(side)) return true;
      const u32 other = 1 - side;
      return port.put_with_signal(by, {work.share, neighbours[side], part(other) * sizeof(double)},
                                  work.out + part(side), work.rows * sizeof(double), other, step + 1);
    }
    case interior:
      for (const u32 role : wrote_before)
        if (!crew.wait_for_last(role)) return false;
      for (u32 row = 1 + task.index; row <= work.rows; row += work.fusion.tasks[interior])
        for (u32 column = 2 + by.index(); column < work.columns; column += by.size())
          relax(work, step, row, column);
      return true;
    case arrivals:
      if (work.waits_wrongly && !crew.wait_for(unpacks)) return false;
      for (u32 side = 0; side < 2; ++side)
        if (is_there(side) && !port.wait(by, side, step + 1)) return false;
      return true;
    default:
      if (!crew.wait_for(arrivals)) return false;
      if (!is_there(task.index)) return true;
      for (u32 row = 1 + by.index(); row <= work.rows; row += by.size())
        see(work.fields[(step + 1) % 2])[row * pitch + (task.index == left ? 0 : work.columns + 1)] =
            see(work.came)[part(task.index) + row - 1];
      return true;
  }
}

ISTHMUS_DEVICE_FUNCTION void jacobi(const JacobiWork& work) {
  run_fused(work.fusion, work.port,
            [&](const Task& task, const Crew& crew) { return jacobi_task(work, task, crew); });
}

}  // namespace testing_device
