#ifndef ISTHMUS_DEVICE_CUH
#define ISTHMUS_DEVICE_CUH

#include <isthmus/device_view.h>

/// Communication that kernels start: docs/device.md. For nvcc and NVRTC in C++17 and later; a host's compiler
/// compiles the same text for twins of kernels, where a block is one thread.
///
///     __global__ void step(isthmus::device::DevicePort port, const float* halo, unsigned long long bytes) {
///       using namespace isthmus::device;
///       port.put_with_signal(ByBlock{}, {0, right, 0}, halo, bytes, 0, round);   // share 0 of `right`
///       if (!port.wait(ByBlock{}, 1, round)) return;                            // ended by the host
///       // What came before the signal is visible to the whole block here.
///     }
///
/// Every function is called by all threads of its scope (`ByThread`, `ByWarp`, `ByBlock`, `ByGrid`) with the
/// same arguments, and gives all of a thread, warp or block the same answer. False: the call was refused, or
/// the port was ended (a process died, or the host has cancelled it); the host's next call says which.
///
/// Memory model (PTX ISA, memory consistency model; scope .sys). A signal is a release: who waits for it sees
/// all that the threads of the signalling scope have put and stored before the call. A wait that returns
/// true, and a test, is an acquire for all threads of its scope. Nothing else orders anything: bytes of a
/// `put` are seen in no order until a signal behind it is.

#if defined(__CUDACC__)
#define ISTHMUS_DEVICE_FUNCTION __device__ __forceinline__
#define ISTHMUS_DEVICE_ANYWHERE __host__ __device__ __forceinline__
#define ISTHMUS_DEVICE_UNROLL _Pragma("unroll")
#else
#include <sched.h>

#include <cstring>
#define ISTHMUS_DEVICE_FUNCTION inline
#define ISTHMUS_DEVICE_ANYWHERE inline
#define ISTHMUS_DEVICE_UNROLL
#endif

namespace isthmus::device {

using u32 = unsigned int;
using u64 = unsigned long long;
using Line = isthmus_device_line;

#if !defined(__CUDACC__)
/// For twins of kernels: what stands for the hardware.
namespace twin {
/// Where a processor finds what a GPU has at an address; null: the address itself. Of the emulated driver.
inline void* (*view)(u64 address) = nullptr;
/// Which block of a grid this thread of the host is.
struct Place {
  u32 block = 0;
  u32 blocks = 1;
};
inline Place& place() {
  static thread_local Place here;
  return here;
}
}  // namespace twin
#endif

/// An address as the code that runs here can follow it: on a GPU itself. Functions of this header do it with
/// what they are given.
template <class T>
ISTHMUS_DEVICE_FUNCTION T* see(T* address) {
#if defined(__CUDACC__)
  return address;
#else
  if (!twin::view) return address;
  void* const seen = twin::view(reinterpret_cast<u64>(address));
  return seen ? static_cast<T*>(seen) : address;
#endif
}

// --- scopes

/// One thread for itself.
struct ByThread {
  ISTHMUS_DEVICE_FUNCTION u32 index() const { return 0; }
  ISTHMUS_DEVICE_FUNCTION u32 size() const { return 1; }
  ISTHMUS_DEVICE_FUNCTION void sync() const {}
  ISTHMUS_DEVICE_FUNCTION bool all(bool ok) const { return ok; }
  ISTHMUS_DEVICE_FUNCTION u64 first_has(u64 value) const { return value; }
};

/// All 32 lanes of a warp of a block with one dimension or a multiple of 32 threads in x.
struct ByWarp {
#if defined(__CUDACC__)
  ISTHMUS_DEVICE_FUNCTION u32 index() const {
    u32 lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
  }
  ISTHMUS_DEVICE_FUNCTION u32 size() const {
    return 32;
  }
  ISTHMUS_DEVICE_FUNCTION void sync() const {
    __syncwarp();
  }
  ISTHMUS_DEVICE_FUNCTION bool all(bool ok) const {
    return __all_sync(~0U, ok) != 0;
  }
  ISTHMUS_DEVICE_FUNCTION u64 first_has(u64 value) const {
    return __shfl_sync(~0U, value, 0);
  }
#else
  [[nodiscard]] u32 index() const {
    return 0;
  }
  [[nodiscard]] u32 size() const {
    return 1;
  }
  void sync() const {}
  [[nodiscard]] bool all(bool ok) const {
    return ok;
  }
  [[nodiscard]] u64 first_has(u64 value) const {
    return value;
  }
#endif
};

/// All threads of a block.
struct ByBlock {
#if defined(__CUDACC__)
  ISTHMUS_DEVICE_FUNCTION u32 index() const {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  ISTHMUS_DEVICE_FUNCTION u32 size() const {
    return blockDim.x * blockDim.y * blockDim.z;
  }
  ISTHMUS_DEVICE_FUNCTION void sync() const {
    __syncthreads();
  }
  ISTHMUS_DEVICE_FUNCTION bool all(bool ok) const {
    return __syncthreads_and(ok) != 0;
  }
  ISTHMUS_DEVICE_FUNCTION u64 first_has(u64 value) const {
    __shared__ u64 given;
    if (index() == 0) given = value;
    __syncthreads();
    const u64 taken = given;
    __syncthreads();
    return taken;
  }
#else
  [[nodiscard]] u32 index() const {
    return 0;
  }
  [[nodiscard]] u32 size() const {
    return 1;
  }
  void sync() const {}
  [[nodiscard]] bool all(bool ok) const {
    return ok;
  }
  [[nodiscard]] u64 first_has(u64 value) const {
    return value;
  }
#endif
};

/// The number of this block, and of blocks, of a grid with any dimensions.
ISTHMUS_DEVICE_FUNCTION u32 block_number() {
#if defined(__CUDACC__)
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
#else
  return twin::place().block;
#endif
}
ISTHMUS_DEVICE_FUNCTION u32 block_count() {
#if defined(__CUDACC__)
  return gridDim.x * gridDim.y * gridDim.z;
#else
  return twin::place().blocks;
#endif
}

/// All threads of a grid: each block does its part, and the last one that is done signals. Nobody waits for
/// other blocks, so any grid will do. `counter`: one of 64 of the port, not of two kernels at a time. Answers
/// are those of a block. Not for team operations.
struct ByGrid {
  u32 counter = 0;

  /// Warps of all blocks in turn, so that a short copy is done by all multiprocessors.
  ISTHMUS_DEVICE_FUNCTION u32 index() const {
    const u32 in_block = ByBlock().index();
    if (ByBlock().size() % 32 != 0) return block_number() * ByBlock().size() + in_block;
    return (in_block / 32 * block_count() + block_number()) * 32 + in_block % 32;
  }
  ISTHMUS_DEVICE_FUNCTION u32 size() const { return block_count() * ByBlock().size(); }
  ISTHMUS_DEVICE_FUNCTION void sync() const { ByBlock().sync(); }
  ISTHMUS_DEVICE_FUNCTION bool all(bool ok) const { return ByBlock().all(ok); }
};

// --- words, as the whole system sees them

namespace detail {

/// All that this thread has seen or done comes before all that it does from now on, for everybody.
ISTHMUS_DEVICE_FUNCTION void fence_system() {
#if defined(__CUDACC__)
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
/// The same for threads of this GPU.
ISTHMUS_DEVICE_FUNCTION void fence_gpu() {
#if defined(__CUDACC__)
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
ISTHMUS_DEVICE_FUNCTION u64 load_word(const u64* from) {
#if defined(__CUDACC__)
  u64 value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
#endif
}
/// Acquire: what the writer has done before a release that this sees comes before all that follows here. It
/// does not wait for this thread's own stores, as a fence would.
ISTHMUS_DEVICE_FUNCTION u64 acquire_word(const u64* from) {
#if defined(__CUDACC__)
  u64 value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
#endif
}
ISTHMUS_DEVICE_FUNCTION void store_word(u64* to, u64 value) {
#if defined(__CUDACC__)
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#else
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
#endif
}
ISTHMUS_DEVICE_FUNCTION void add_to_word(u64* to, u64 value) {
#if defined(__CUDACC__)
  asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#else
  __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);
#endif
}
/// 16 bytes as one. (A processor has no such store: there the word comes first, and the value tells of it.)
/// `acquires`: as `acquire_word`.
template <bool acquires = false>
ISTHMUS_DEVICE_FUNCTION Line load_line(const Line* from) {
#if defined(__CUDACC__)
  Line line;
  if constexpr (acquires)
    asm volatile(
        "{\n\t.reg .b128 both;\n\t"
        "ld.acquire.sys.global.b128 both, [%2];\n\t"
        "mov.b128 {%0, %1}, both;\n\t}"
        : "=l"(line.value), "=l"(line.word)
        : "l"(from)
        : "memory");
  else
    asm volatile(
        "{\n\t.reg .b128 both;\n\t"
        "ld.relaxed.sys.global.b128 both, [%2];\n\t"
        "mov.b128 {%0, %1}, both;\n\t}"
        : "=l"(line.value), "=l"(line.word)
        : "l"(from)
        : "memory");
  return line;
#else
  const u64 value = __atomic_load_n(&from->value, __ATOMIC_ACQUIRE);
  return {value, __atomic_load_n(&from->word, __ATOMIC_RELAXED)};
#endif
}
ISTHMUS_DEVICE_FUNCTION void store_line(Line* to, Line line) {
#if defined(__CUDACC__)
  asm volatile(
      "{\n\t.reg .b128 both;\n\t"
      "mov.b128 both, {%1, %2};\n\t"
      "st.relaxed.sys.global.b128 [%0], both;\n\t}" ::"l"(to),
      "l"(line.value), "l"(line.word)
      : "memory");
#else
  __atomic_store_n(&to->word, line.word, __ATOMIC_RELAXED);
  __atomic_store_n(&to->value, line.value, __ATOMIC_RELEASE);
#endif
}
/// What was there. For threads of this GPU.
ISTHMUS_DEVICE_FUNCTION u64 take_number(u64* counter) {
#if defined(__CUDACC__)
  return atomicAdd(counter, 1ULL);
#else
  return __atomic_fetch_add(counter, 1ULL, __ATOMIC_ACQ_REL);
#endif
}
ISTHMUS_DEVICE_FUNCTION u32 take_number(u32* counter) {
#if defined(__CUDACC__)
  return atomicAdd(counter, 1U);
#else
  return __atomic_fetch_add(counter, 1U, __ATOMIC_ACQ_REL);
#endif
}
/// Of what does not change while a kernel runs.
template <class T>
ISTHMUS_DEVICE_FUNCTION T constant(const T* from) {
#if defined(__CUDACC__)
  static_assert(sizeof(T) % 8 == 0, "read in words");
  T value;
  ISTHMUS_DEVICE_UNROLL
  for (u32 i = 0; i < sizeof(T) / 8; ++i)
    reinterpret_cast<u64*>(&value)[i] = __ldg(reinterpret_cast<const u64*>(from) + i);
  return value;
#else
  return *from;
#endif
}
/// Between fruitless looks.
ISTHMUS_DEVICE_FUNCTION void pause() {
#if !defined(__CUDACC__)
  ::sched_yield();
#endif
}

/// Looks at a word until the host is asked whether to go on: it lies behind the PCIe, 1.1 us away, where a
/// look at local memory takes 0.16 (H200).
inline constexpr u32 looks_per_question = 1024;

struct alignas(16) Vector {
  u32 words[4];
};

/// `far`: from memory that another GPU writes meanwhile, so past this multiprocessor's cache.
template <bool far, class Unit>
ISTHMUS_DEVICE_FUNCTION Unit load_unit(const unsigned char* from) {
#if defined(__CUDACC__)
  if constexpr (far && sizeof(Unit) == 16) {
    Unit value;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.words[0]), "=r"(value.words[1]), "=r"(value.words[2]), "=r"(value.words[3])
                 : "l"(from)
                 : "memory");
    return value;
  } else if constexpr (far) {
    return *reinterpret_cast<const volatile Unit*>(from);
  } else {
    return *reinterpret_cast<const Unit*>(from);
  }
#else
  Unit value;
  std::memcpy(&value, from, sizeof value);
  return value;
#endif
}

template <class Unit>
ISTHMUS_DEVICE_FUNCTION void store_unit(unsigned char* to, const Unit& value) {
#if defined(__CUDACC__)
  *reinterpret_cast<Unit*>(to) = value;
#else
  std::memcpy(to, &value, sizeof value);
#endif
}

/// The part of a thread, `index` of `size`, in a copy by units to where they are aligned.
template <bool far, class Unit>
ISTHMUS_DEVICE_FUNCTION void copy_units(unsigned char* to, const unsigned char* from, u64 bytes, u32 index,
                                        u32 size) {
  const u64 ahead = (sizeof(Unit) - reinterpret_cast<u64>(to) % sizeof(Unit)) % sizeof(Unit);
  const u64 head = ahead < bytes ? ahead : bytes;
  const u64 units = (bytes - head) / sizeof(Unit);
  const u64 behind = head + units * sizeof(Unit);
  constexpr u32 together = 4;
  for (u64 first = index; first < units; first += u64{size} * together) {
    Unit loaded[together];
    ISTHMUS_DEVICE_UNROLL
    for (u32 i = 0; i < together; ++i)
      if (const u64 unit = first + u64{size} * i; unit < units)
        loaded[i] = load_unit<far, Unit>(from + head + unit * sizeof(Unit));
    ISTHMUS_DEVICE_UNROLL
    for (u32 i = 0; i < together; ++i)
      if (const u64 unit = first + u64{size} * i; unit < units)
        store_unit(to + head + unit * sizeof(Unit), loaded[i]);
  }
  const u64 edges = head + (bytes - behind);
  for (u64 i = index; i < edges; i += size) {
    const u64 at = i < head ? i : i - head + behind;
    store_unit(to + at, load_unit<far, unsigned char>(from + at));
  }
}

}  // namespace detail

/// The part of this thread in a copy by its scope, 16 bytes at a time where both ends allow it. No order.
/// `far`: `from` is memory that another GPU may have written since this kernel began.
template <bool far = false, class By>
ISTHMUS_DEVICE_FUNCTION void copy(By by, void* to, const void* from, u64 bytes) {
  auto* const target = static_cast<unsigned char*>(to);
  const auto* const source = static_cast<const unsigned char*>(from);
  const u64 apart = reinterpret_cast<u64>(to) - reinterpret_cast<u64>(from);
  if (apart % 16 == 0)
    detail::copy_units<far, detail::Vector>(target, source, bytes, by.index(), by.size());
  else if (apart % 4 == 0)
    detail::copy_units<far, u32>(target, source, bytes, by.index(), by.size());
  else
    detail::copy_units<far, unsigned char>(target, source, bytes, by.index(), by.size());
}

/// Bytes of what process `rank` shares under a number.
struct Place {
  u32 share;
  int rank;
  u64 offset;
};

enum class Condition : u32 {
  at_least,  ///< as unsigned numbers
  equal,
  any_bit,
};
enum class SignalBy : u32 {
  set = ISTHMUS_DEVICE_SET,
  add = ISTHMUS_DEVICE_ADD,  ///< only to processes that are mapped, where links have atomic operations
};

/// A port in kernels: the processes of a communicator, their shares, and signals of 64 bits in the memory of
/// each one's GPU, which their owner waits for and all set. Each has a word of 64 bits beside it.
class DevicePort {
 public:
  DevicePort() = default;
  explicit ISTHMUS_DEVICE_ANYWHERE DevicePort(const isthmus_device_view& view) : view_(view) {}

  ISTHMUS_DEVICE_FUNCTION int rank() const { return view_.rank; }
  ISTHMUS_DEVICE_FUNCTION int ranks() const { return view_.ranks; }
  /// Whether kernels store to that process's part of a share themselves; else a proxy carries what they put.
  ISTHMUS_DEVICE_FUNCTION bool is_mapped(u32 share, int rank) const {
    return share < view_.shares && is_rank(rank) && span(share, rank).base != 0;
  }
  /// Where a kernel may load and store itself; null where that is not mapped. Such stores are ordered by
  /// signals as a put is.
  ISTHMUS_DEVICE_FUNCTION void* address(Place place) const {
    if (!is_mapped(place.share, place.rank)) return nullptr;
    const isthmus_device_span there = span(place.share, place.rank);
    return place.offset < there.bytes ? reinterpret_cast<void*>(there.base + place.offset) : nullptr;
  }

  /// Copies to a process. Order: none; the bytes are seen behind a later signal of a scope that this one's
  /// threads belong to. Before it, all threads of the scope have written what they put (a block: its
  /// barrier). `from`: any memory that this kernel reads; memory of the GPU, which is free only after
  /// `flush`, where a proxy carries it.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool put(By by, Place to, const void* from, u64 bytes) const {
    isthmus_device_span there;
    if (!find(by, ISTHMUS_DEVICE_PUT, to, bytes, there)) return false;
    if (bytes == 0) return true;
    if (there.base == 0) {
      isthmus_device_request wanted = request(ISTHMUS_DEVICE_PUT, to, bytes);
      wanted.local = reinterpret_cast<u64>(from);
      return post(by, wanted);
    }
    copy(by, see(reinterpret_cast<void*>(there.base + to.offset)), see(from), bytes);
    return true;
  }

  /// Sets a signal of a process, or adds to it. Release, scope .sys: see above. `bytes` of earlier puts that
  /// go by proxy come before it, too.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool signal(By by, int rank, u32 signal, u64 value,
                                      SignalBy how = SignalBy::set) const {
    return announce(by, rank, signal, {value, 0}, static_cast<u32>(how));
  }
  /// Sets a signal and its word in one store: 8 bytes that are there with the signal, at the price of the
  /// signal alone. Release for nothing else: bytes that were put before may come later.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool signal_with_word(By by, int rank, u32 signal, u64 value, u64 word) const {
    return announce(by, rank, signal, {value, word}, ISTHMUS_DEVICE_LINE);
  }

  /// Copies, and signals behind the bytes: release of these and of all that the scope has put before.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool put_with_signal(By by, Place to, const void* from, u64 bytes, u32 signal,
                                               u64 value, SignalBy how = SignalBy::set) const {
    isthmus_device_span there;
    if (!find(by, ISTHMUS_DEVICE_PUT, to, bytes, there)) return false;
    if (there.base != 0 || bytes == 0) {
      if (bytes != 0) copy(by, see(reinterpret_cast<void*>(there.base + to.offset)), see(from), bytes);
      return announce(by, to.rank, signal, {value, 0}, static_cast<u32>(how));
    }
    if (!check_signal(by, to.rank, signal)) return false;
    isthmus_device_request wanted = request(ISTHMUS_DEVICE_PUT, to, bytes);
    wanted.local = reinterpret_cast<u64>(from);
    wanted.signal = signal;
    wanted.signals = static_cast<unsigned short>(how);
    wanted.value = value;
    return post(by, wanted);
  }

  /// Copies from a process. The bytes are those of some moment of the call; what its owner has signalled
  /// after writing them, this scope must have waited for. They are there after the scope's next barrier where
  /// the process is mapped, else after `flush`.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool get(By by, void* to, Place from, u64 bytes) const {
    isthmus_device_span there;
    if (!find(by, ISTHMUS_DEVICE_GET, from, bytes, there)) return false;
    if (bytes == 0) return true;
    if (there.base == 0) {
      isthmus_device_request wanted = request(ISTHMUS_DEVICE_GET, from, bytes);
      wanted.local = reinterpret_cast<u64>(to);
      return post(by, wanted);
    }
    copy<true>(by, see(to), see(reinterpret_cast<const void*>(there.base + from.offset)), bytes);
    return true;
  }

  /// Until a signal of this process fulfils the condition. Acquire, scope .sys, for all threads of the scope:
  /// see above. False: it does not any more, because the port was ended.
  template <class By>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool wait(By by, u32 signal, u64 value,
                                                  Condition condition = Condition::at_least) const {
    if (!check_own_signal(by, signal)) return false;
    bool ok = true;
    if (by.index() == leader(by)) ok = poll(&own_signals()[signal].value, value, condition);
    return by.all(ok);
  }
  /// The same until it is `value`, and sets it to 0 before anybody goes on: no number counts, so that the
  /// same kernel can run again.
  template <class By>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool take(By by, u32 signal, u64 value) const {
    if (!check_own_signal(by, signal)) return false;
    bool ok = true;
    if (by.index() == leader(by)) {
      u64* const word = &own_signals()[signal].value;
      ok = poll(word, value, Condition::equal);
      if (ok) detail::store_word(word, 0);
    }
    return by.all(ok);
  }
  /// Until a signal is at least `value`, and takes its word. Acquire for nothing else.
  template <class By>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool wait_word(By by, u32 signal, u64 value, u64& word) const {
    if (!check_own_signal(by, signal)) return false;
    bool ok = true;
    Line line{};
    if (by.index() == 0)
      ok = await([&, at = &own_signals()[signal]] {
        line = detail::load_line(at);
        return line.value >= value;
      });
    ok = by.all(ok);
    word = by.first_has(line.word);
    return ok;
  }
  /// Whether it does now; acquire where it does. What the first thread of the scope sees.
  template <class By>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool test(By by, u32 signal, u64 value,
                                                  Condition condition = Condition::at_least) const {
    if (!check_own_signal(by, signal)) return false;
    bool ok = true;
    if (by.index() == leader(by)) {
      ok = holds(detail::acquire_word(&own_signals()[signal].value), value, condition);
    }
    return by.all(ok);
  }

  /// What the scope has put is free to be written again, and what it has got is there, for all its threads.
  /// Whether a process has got the bytes, only that process's signal tells.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool flush(By by) const {
    by.sync();
    bool ok = true;
    if (by.index() == leader(by) && view_.requests) {
      const u64 posted = detail::load_word(&see(view_.state)->tail);
      ok = poll(&see(view_.control)->done, posted, Condition::at_least);
    }
    detail::fence_system();
    return by.all(ok);
  }

  /// Whether the host has ended the port: asked over the PCIe. For loops of the program's own.
  ISTHMUS_DEVICE_FUNCTION bool is_ended() const { return detail::load_word(&see(view_.control)->ended) != 0; }

  // Team operations: by one scope of each process, in the same order on all, and by one scope of a process at
  // a time. Each is one store to each other process and one look at local memory, so all must be mapped.
  // Rounds alternate between two halves of the packets: who has heard all of a round knows that all have
  // ended the one before.

  /// Release and acquire, scope .sys: who leaves sees all that the threads of each scope have put or stored
  /// before.
  template <class By>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool barrier(By by) const {
    if (!check_team(by)) return false;
    by.sync();
    const u64 round = detail::load_word(&see(view_.state)->epoch) + 1;
    bool ok = true;
    for (u32 i = by.index(); i < static_cast<u32>(view_.ranks); i += by.size()) {
      detail::fence_system();
      send(static_cast<int>(i), round, 0, 0);
    }
    for (u32 i = by.index(); i < static_cast<u32>(view_.ranks); i += by.size()) {
      u64 bits = 0;
      ok = ok && receive<true>(static_cast<int>(i), round, 0, bits);
    }
    return end_round(by, round, ok);
  }
  /// `values` of the process `root` to all: `count` of a type of up to 8 bytes, in memory that the scope's
  /// threads share. They carry themselves; nothing else is ordered. All wait for all, unless `count` is 0.
  template <class By, class T>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool broadcast(By by, T* values, u32 count, int root) const {
    if (!check_team(by)) return false;
    if (!is_rank(root)) return refuse(by, ISTHMUS_DEVICE_BAD_RANK, ISTHMUS_DEVICE_TEAM, root, 0, 0, 0);
    T* const seen = see(values);
    bool ok = true;
    for (u32 done = 0; ok && done < count;) {
      by.sync();
      const u64 round = detail::load_word(&see(view_.state)->epoch) + 1;
      const u32 now = part(count - done);
      // From the others an empty one, by which they say that they are here.
      for (u32 i = by.index(); i < (view_.rank == root ? now : 1); i += by.size())
        for (int to = 0; to < view_.ranks; ++to)
          send(to, round, i, view_.rank == root ? bits_of(seen[done + i]) : 0);
      for (u32 i = by.index(); i < now && ok; i += by.size()) {
        u64 bits = 0;
        ok = receive(root, round, i, bits);
        if (ok) seen[done + i] = from_bits<T>(bits);
      }
      for (u32 i = by.index(); i < static_cast<u32>(view_.ranks) && ok; i += by.size()) {
        u64 bits = 0;
        ok = receive(static_cast<int>(i), round, 0, bits);
      }
      ok = end_round(by, round, ok);
      done += now;
    }
    return ok;
  }
  /// `values[i] = op(op(value of rank 0, that of rank 1), ...)` on all, in this order, so that all get the
  /// same bits; else as `broadcast`.
  template <class By, class T, class Op>
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool allreduce(By by, T* values, u32 count, Op op) const {
    if (!check_team(by)) return false;
    T* const seen = see(values);
    bool ok = true;
    for (u32 done = 0; ok && done < count;) {
      by.sync();
      const u64 round = detail::load_word(&see(view_.state)->epoch) + 1;
      const u32 now = part(count - done);
      for (u32 i = by.index(); i < now; i += by.size()) {
        const u64 bits = bits_of(seen[done + i]);
        for (int to = 0; to < view_.ranks; ++to)
          send(to, round, i, bits);
      }
      for (u32 i = by.index(); i < now && ok; i += by.size()) {
        u64 bits = 0;
        ok = receive(0, round, i, bits);
        T sum = from_bits<T>(bits);
        for (int from = 1; from < view_.ranks && ok; ++from) {
          ok = receive(from, round, i, bits);
          sum = op(sum, from_bits<T>(bits));
        }
        if (ok) seen[done + i] = sum;
      }
      ok = end_round(by, round, ok);
      done += now;
    }
    return ok;
  }

  /// Notes for the host why a call cannot be; the first one counts. For the scope's first thread; false.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool refuse(By by, u32 why, u32 what, int rank, u32 number, u64 offset,
                                      u64 bytes) const {
    if (by.index() != leader(by)) return false;
    if (detail::take_number(&see(view_.state)->refused) != 0) return false;
    isthmus_device_control* const control = see(view_.control);
    detail::store_word(&control->what, what);
    detail::store_word(&control->rank, static_cast<u64>(static_cast<long long>(rank)));
    detail::store_word(&control->number, number);
    detail::store_word(&control->offset, offset);
    detail::store_word(&control->bytes, bytes);
    detail::fence_system();
    detail::store_word(&control->why, why);
    return false;
  }

  /// Until `ready()`, or the host has ended the port: then false. By one thread; orders nothing.
  template <class Ready>
  ISTHMUS_DEVICE_FUNCTION bool await(Ready ready) const {
    for (u32 looks = 1;; ++looks) {
      if (ready()) return true;
      if (looks % detail::looks_per_question == 0 && is_ended()) return false;
      detail::pause();
    }
  }
  /// Until a word of memory that this GPU looks at fulfils the condition; acquire. By one thread.
  ISTHMUS_DEVICE_FUNCTION bool poll(const u64* word, u64 value, Condition condition) const {
    return await([&] { return holds(detail::acquire_word(word), value, condition); });
  }

  // For <isthmus/device_mail.cuh>.

  ISTHMUS_DEVICE_FUNCTION bool is_rank(int rank) const {
    return static_cast<u32>(rank) < static_cast<u32>(view_.ranks);
  }
  /// Where kernels here have what lies behind the packets of a process; null: that is not mapped.
  ISTHMUS_DEVICE_FUNCTION unsigned char* room(int rank) const {
    const u64 packets = peer(rank).packets;
    if (packets == 0) return nullptr;
    return reinterpret_cast<unsigned char*>(
        packets + u64{2} * static_cast<u32>(view_.ranks) * ISTHMUS_DEVICE_TEAM_WORDS * sizeof(Line));
  }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool has_proxy() const { return view_.requests != nullptr; }
  /// Has the proxy bring bytes into the room of a process, and set a line there behind them; both are counted
  /// in lines from its begin. `from`: memory of this GPU, which stays as it is until that line has been seen.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool carry(By by, int rank, u64 to, const void* from, u64 bytes, u64 line,
                                     Line what) const {
    isthmus_device_request wanted = request(bytes != 0 ? ISTHMUS_DEVICE_PUT : ISTHMUS_DEVICE_SIGNAL,
                                            {ISTHMUS_DEVICE_ROOM, rank, to * sizeof(Line)}, bytes);
    wanted.local = reinterpret_cast<u64>(from);
    wanted.signal = static_cast<u32>(line);
    wanted.signals = ISTHMUS_DEVICE_LINE;
    wanted.value = what.value;
    wanted.word = what.word;
    return post(by, wanted);
  }
  /// What a process shares, where all of that can be reached; refuses what cannot.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool find(By by, u32 what, Place place, u64 bytes,
                                    isthmus_device_span& there) const {
    const auto refused = [&](u32 why) {
      return refuse(by, why, what, place.rank, place.share, place.offset, bytes);
    };
    if (!is_rank(place.rank)) return refused(ISTHMUS_DEVICE_BAD_RANK);
    if (place.share >= view_.shares) return refused(ISTHMUS_DEVICE_BAD_SHARE);
    there = span(place.share, place.rank);
    if (place.offset > there.bytes || bytes > there.bytes - place.offset)
      return refused(ISTHMUS_DEVICE_BAD_RANGE);
    if (there.base == 0 && bytes != 0 && !view_.requests) return refused(ISTHMUS_DEVICE_NO_WAY);
    return true;
  }

 private:
  ISTHMUS_DEVICE_FUNCTION static bool holds(u64 now, u64 value, Condition condition) {
    if (condition == Condition::at_least) return now >= value;
    if (condition == Condition::equal) return now == value;
    return (now & value) != 0;
  }
  /// The thread that acts for the scope; of a grid one in each block.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION static u32 leader(By by) {
    return by.index() - index_in_block(by);
  }
  template <class By>
  ISTHMUS_DEVICE_FUNCTION static u32 index_in_block(By by) {
    return by.index();
  }
  ISTHMUS_DEVICE_FUNCTION static u32 index_in_block(ByGrid) { return ByBlock().index(); }

  ISTHMUS_DEVICE_FUNCTION isthmus_device_span span(u32 share, int rank) const {
    return detail::constant(see(view_.spans) + u64{share} * static_cast<u32>(view_.ranks) +
                            static_cast<u32>(rank));
  }
  ISTHMUS_DEVICE_FUNCTION isthmus_device_peer peer(int rank) const {
    return detail::constant(see(view_.peers) + rank);
  }
  ISTHMUS_DEVICE_FUNCTION Line* own_signals() const {
    return see(reinterpret_cast<Line*>(peer(view_.rank).signals));
  }

  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool check_signal(By by, int rank, u32 signal) const {
    if (!is_rank(rank)) return refuse(by, ISTHMUS_DEVICE_BAD_RANK, ISTHMUS_DEVICE_SIGNAL, rank, signal, 0, 0);
    if (signal >= view_.signals)
      return refuse(by, ISTHMUS_DEVICE_BAD_SIGNAL, ISTHMUS_DEVICE_SIGNAL, rank, signal, 0, 0);
    return true;
  }
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool check_own_signal(By by, u32 signal) const {
    if (signal < view_.signals) return true;
    return refuse(by, ISTHMUS_DEVICE_BAD_SIGNAL, ISTHMUS_DEVICE_WAIT, view_.rank, signal, 0, 0);
  }
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool check_team(By by) const {
    if (view_.is_team != 0) return true;
    return refuse(by, ISTHMUS_DEVICE_NO_WAY, ISTHMUS_DEVICE_TEAM, view_.rank, 0, 0, 0);
  }

  /// True for one thread of the scope, after all others have come here: what they have done before comes
  /// before what it does.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool is_last(By by) const {
    by.sync();
    return by.index() == 0;
  }
  ISTHMUS_DEVICE_FUNCTION bool is_last(ByGrid by) const {
    by.sync();
    if (ByBlock().index() != 0) return false;
    u32* const counter = &see(view_.state)->counters[by.counter % ISTHMUS_DEVICE_GRID_COUNTERS];
    detail::fence_system();
    if (detail::take_number(counter) + 1 != block_count()) return false;
    detail::fence_system();
    *counter = 0;
    return true;
  }

  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool announce(By by, int rank, u32 signal, Line line, u32 how) const {
    if (!check_signal(by, rank, signal)) return false;
    const isthmus_device_peer there = peer(rank);
    if (there.signals == 0 || (there.flags & ISTHMUS_DEVICE_DETOUR) != 0) {
      isthmus_device_request wanted = request(ISTHMUS_DEVICE_SIGNAL, {0, rank, 0}, 0);
      wanted.signal = signal;
      wanted.signals = static_cast<unsigned short>(how);
      wanted.value = line.value;
      wanted.word = line.word;
      return post(by, wanted);
    }
    if (how == ISTHMUS_DEVICE_ADD && (there.flags & ISTHMUS_DEVICE_ATOMICS) == 0)
      return refuse(by, ISTHMUS_DEVICE_NO_ATOMICS, ISTHMUS_DEVICE_SIGNAL, rank, signal, 0, 0);
    if (!is_last(by)) return true;
    Line* const target = see(reinterpret_cast<Line*>(there.signals)) + signal;
    if (how == ISTHMUS_DEVICE_LINE) {
      detail::store_line(target, line);
      return true;
    }
    detail::fence_system();
    if (how == ISTHMUS_DEVICE_ADD)
      detail::add_to_word(&target->value, line.value);
    else
      detail::store_word(&target->value, line.value);
    return true;
  }

  // --- packets

  ISTHMUS_DEVICE_FUNCTION static u32 part(u32 count) {
    return count < ISTHMUS_DEVICE_TEAM_WORDS ? count : ISTHMUS_DEVICE_TEAM_WORDS;
  }
  template <class T>
  ISTHMUS_DEVICE_FUNCTION static u64 bits_of(const T& value) {
    static_assert(sizeof(T) <= 8, "values of team operations have up to 8 bytes");
    u64 bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
  }
  template <class T>
  ISTHMUS_DEVICE_FUNCTION static T from_bits(u64 bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  ISTHMUS_DEVICE_FUNCTION u64 packet(u64 round, int sender, u32 i) const {
    return ((round % 2) * static_cast<u32>(view_.ranks) + static_cast<u32>(sender)) *
               ISTHMUS_DEVICE_TEAM_WORDS +
           i;
  }
  ISTHMUS_DEVICE_FUNCTION void send(int to, u64 round, u32 i, u64 bits) const {
    detail::store_line(see(reinterpret_cast<Line*>(peer(to).packets)) + packet(round, view_.rank, i),
                       {round, bits});
  }
  template <bool acquires = false>
  ISTHMUS_DEVICE_FUNCTION bool receive(int from, u64 round, u32 i, u64& bits) const {
    const Line* const at =
        see(reinterpret_cast<const Line*>(peer(view_.rank).packets)) + packet(round, from, i);
    Line line{};
    const bool ok = await([&] {
      line = detail::load_line<acquires>(at);
      return line.value == round;
    });
    bits = line.word;
    return ok;
  }
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool end_round(By by, u64 round, bool ok) const {
    ok = by.all(ok);
    if (by.index() == 0) detail::store_word(&see(view_.state)->epoch, round);
    by.sync();
    return ok;
  }

  // --- the proxy

  ISTHMUS_DEVICE_FUNCTION static isthmus_device_request request(u32 kind, Place place, u64 bytes) {
    isthmus_device_request made{};
    made.kind = static_cast<unsigned short>(kind);
    made.rank = place.rank;
    made.share = place.share;
    made.offset = place.offset;
    made.bytes = bytes;
    return made;
  }
  /// Hands a request to the proxy, once for the scope, when all its threads have written what is to be read.
  /// Waits where the proxy has as many as it can hold.
  template <class By>
  ISTHMUS_DEVICE_FUNCTION bool post(By by, isthmus_device_request wanted) const {
    bool ok = true;
    if (!view_.requests)
      ok = refuse(by, ISTHMUS_DEVICE_NO_WAY, wanted.kind, wanted.rank, wanted.share, wanted.offset,
                  wanted.bytes);
    else if (wanted.signals == ISTHMUS_DEVICE_ADD)
      ok = refuse(by, ISTHMUS_DEVICE_NO_ATOMICS, wanted.kind, wanted.rank, wanted.signal, wanted.offset,
                  wanted.bytes);
    else if (is_last(by))
      ok = write(wanted);
    return by.all(ok || by.index() != leader(by));
  }
  ISTHMUS_DEVICE_FUNCTION bool write(const isthmus_device_request& wanted) const {
    detail::fence_system();
    const u64 number = detail::take_number(&see(view_.state)->tail) + 1;
    if (number > view_.slots && !poll(&see(view_.control)->done, number - view_.slots, Condition::at_least))
      return false;
    isthmus_device_request* const slot = see(view_.requests) + number % view_.slots;
    const auto* const words = reinterpret_cast<const u64*>(&wanted);
    constexpr u32 last = sizeof wanted / sizeof(u64) - 1;
    for (u32 i = 0; i < last; ++i)
      detail::store_word(reinterpret_cast<u64*>(slot) + i, words[i]);
    detail::fence_system();
    detail::store_word(&slot->number, number);
    return true;
  }

  isthmus_device_view view_;
};
static_assert(sizeof(DevicePort) == sizeof(isthmus_device_view), "a kernel may be given either");

}  // namespace isthmus::device

#endif
