#pragma once

#include <isthmus/device_mail.cuh>
#if !defined(__CUDACC__)
#include <time.h>
#endif

/// What the kernels of gpu_initiated do while the host's clock runs: docs/device.md.
namespace testing_device {

using namespace isthmus::device;

enum class Measure : u32 {
  words,
  puts_by_thread,
  puts_by_warp,
  puts_by_block,
  messages_by_warp,
  messages_by_block,
  stream_by_grid,
  barriers,
  allreduces,
  spin
};

struct MeasureWork {
  DevicePort port;
  unsigned char* from;
  unsigned char* came;  ///< of the share
  u64* wrong;
  u64 bytes;
  u64 first;  ///< round
  u64 nanoseconds;
  u32 rounds;
  u32 share;
  u32 sent_share;  ///< of `from`
  Measure what;
  int peer;
};

ISTHMUS_DEVICE_FUNCTION u64 now() {
#if defined(__CUDACC__)
  u64 nanoseconds;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
#else
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<u64>(time.tv_sec) * 1'000'000'000 + static_cast<u64>(time.tv_nsec);
#endif
}

/// A ping-pong: rank 0 begins.
template <class By>
ISTHMUS_DEVICE_FUNCTION bool measure_puts(const MeasureWork& work, By by) {
  const DevicePort& port = work.port;
  u64* const mark = reinterpret_cast<u64*>(see(work.from));
  const u64* const got = reinterpret_cast<const u64*>(see(work.came));
  for (u64 round = work.first; round < work.first + work.rounds; ++round)
    for (int turn = 0; turn < 2; ++turn) {
      if ((port.rank() == 0) == (turn == 0)) {
        // The first and last word of the bytes.
        if (by.index() == 0) mark[0] = mark[work.bytes / 8 - 1] = round;
        by.sync();
        if (!port.put_with_signal(by, {work.share, work.peer, 0}, work.from, work.bytes, 0, round))
          return false;
      } else {
        if (!port.wait(by, 0, round)) return false;
        if (by.index() == 0 &&
            (detail::load_word(got) != round || detail::load_word(got + work.bytes / 8 - 1) != round))
          detail::take_number(see(work.wrong));
      }
    }
  return true;
}

/// The same by messages with a tag. The peer's answer says that a message's memory is free.
template <class By>
ISTHMUS_DEVICE_FUNCTION bool measure_messages(const MeasureWork& work, By by) {
  const Messages messages(work.port);
  u64* const mark = reinterpret_cast<u64*>(see(work.from));
  const u64* const got = reinterpret_cast<const u64*>(see(work.came));
  for (u64 round = work.first; round < work.first + work.rounds; ++round)
    for (int turn = 0; turn < 2; ++turn) {
      if ((work.port.rank() == 0) == (turn == 0)) {
        if (by.index() == 0) mark[0] = mark[work.bytes / 8 - 1] = round;
        by.sync();
        if (messages.send(by, {work.peer, 7, work.sent_share, 0, work.bytes}) == 0) return false;
      } else {
        u64 bytes = 0;
        if (!messages.receive(by, {work.peer, 7, work.came, work.bytes}, bytes)) return false;
        if (by.index() == 0 && (bytes != work.bytes || got[0] != round || got[work.bytes / 8 - 1] != round))
          detail::take_number(see(work.wrong));
      }
    }
  return true;
}

ISTHMUS_DEVICE_FUNCTION bool measure_words(const MeasureWork& work) {
  const ByThread by;
  for (u64 round = work.first; round < work.first + work.rounds; ++round)
    for (int turn = 0; turn < 2; ++turn)
      if ((work.port.rank() == 0) == (turn == 0)) {
        if (!work.port.signal_with_word(by, work.peer, 0, round, ~round)) return false;
      } else {
        u64 word = 0;
        if (!work.port.wait_word(by, 0, round, word)) return false;
        if (word != ~round) detail::take_number(see(work.wrong));
      }
  return true;
}

/// Rank 0 alone: all rounds, and one signal behind them.
ISTHMUS_DEVICE_FUNCTION bool measure_stream(const MeasureWork& work) {
  if (work.port.rank() != 0) return block_number() != 0 || work.port.wait(ByBlock{}, 0, work.first);
  const Place there{work.share, work.peer, 0};
  for (u32 round = 1; round < work.rounds; ++round)
    if (!work.port.put(ByGrid{}, there, work.from, work.bytes)) return false;
  return work.port.put_with_signal(ByGrid{}, there, work.from, work.bytes, 0, work.first);
}

ISTHMUS_DEVICE_FUNCTION bool measure_team(const MeasureWork& work) {
  const ByBlock by;
  u64* const value = reinterpret_cast<u64*>(work.from);
  for (u32 round = 0; round < work.rounds; ++round) {
    if (work.what == Measure::barriers) {
      if (!work.port.barrier(by)) return false;
      continue;
    }
    if (by.index() == 0) *see(value) = round + static_cast<u32>(work.port.rank());
    if (!work.port.allreduce(by, value, 1, [](u64 a, u64 b) { return a + b; })) return false;
    if (by.index() == 0 && *see(value) != 2U * round + 1) detail::take_number(see(work.wrong));
  }
  return true;
}

ISTHMUS_DEVICE_FUNCTION void measure(const MeasureWork& work) {
  bool ok = true;
  const bool is_first = ByBlock().index() == 0 && block_number() == 0;
  switch (work.what) {
    case Measure::words:
      ok = !is_first || measure_words(work);
      break;
    case Measure::puts_by_thread:
      ok = !is_first || measure_puts(work, ByThread{});
      break;
    case Measure::puts_by_warp:
      ok = ByBlock().index() >= 32 || measure_puts(work, ByWarp{});
      break;
    case Measure::puts_by_block:
      ok = measure_puts(work, ByBlock{});
      break;
    case Measure::messages_by_warp:
      ok = ByBlock().index() >= 32 || measure_messages(work, ByWarp{});
      break;
    case Measure::messages_by_block:
      ok = measure_messages(work, ByBlock{});
      break;
    case Measure::stream_by_grid:
      ok = measure_stream(work);
      break;
    case Measure::barriers:
    case Measure::allreduces:
      ok = measure_team(work);
      break;
    case Measure::spin:
      for (const u64 begun = now(); now() - begun < work.nanoseconds;) {
      }
  }
  if (!ok) detail::take_number(see(work.wrong));
}

}  // namespace testing_device
