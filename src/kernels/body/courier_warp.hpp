#pragma once

#if defined(__CUDACC__)

#include <cstdint>

#include "kernels/body/courier.hpp"
#include "kernels/body/order_part.hpp"

namespace isthmus::kernel {

/// What the other warps of a courier's block are told of a parcel. From null: they are to leave.
struct SharedParcel {
  Byte* to;
  const Byte* from;
  std::uint32_t bytes;
  bool is_order;
  MeetOrder order;
  MeetTable table;  ///< the last one; `id` 0: none yet
};

/// The warp of a courier that looks for parcels. Words of the board and peers' memory are read and written as
/// the whole system sees them, never in this multiprocessor's cache. The other warps of its block wait at a
/// barrier, where they cost nothing, and help with what is longer than `most_alone`.
///
/// Measured on 2 x H200, 8 bytes from the peer's memory, from when the host writes the parcel to when it sees
/// it delivered: 3.6 us. More looks under way at a time make it slower, 4.6 us with two and 6.6 with four,
/// because such loads of a warp wait for each other; so do more warps that look, 4.2 us with three, because
/// the fence before an answer waits for all looks of the multiprocessor.
struct Warp {
  std::uint32_t lane;
  SharedParcel* shared;

  /// Board and GPU agree: either the host sees `begun`, or this sees that it has been recalled.
  [[nodiscard]] __device__ __forceinline__ bool begin(const CourierArguments& work) const {
    std::uint64_t recalled = 0;
    if (lane == 0)
      asm volatile(
          "st.relaxed.sys.global.u64 [%1], %2;\n\t"
          "fence.sc.sys;\n\t"
          "ld.relaxed.sys.global.u64 %0, [%3];"
          : "=l"(recalled)
          : "l"(&work.board->begun), "l"(work.number), "l"(&work.board->recalled)
          : "memory");
    return __shfl_sync(~0U, recalled, 0) < work.number;
  }
  /// Each lane sees one line, of a slot of 64 bytes.
  [[nodiscard]] __device__ __forceinline__ Parcel look(const ParcelSlot* slot) const {
    const std::uint32_t line = lane % 4;
    Parcel seen;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(seen.from), "=l"(seen.to)
                 : "l"(&slot->lines[line < parcel_lines ? line : 0])
                 : "memory");
    return seen;
  }
  [[nodiscard]] __device__ __forceinline__ Parcel agree(const Parcel& seen, std::uint32_t line) const {
    return {__shfl_sync(~0U, seen.from, line), __shfl_sync(~0U, seen.to, line)};
  }
  /// The same for all lanes, which all leave then or none: after an order they may be apart, and each would
  /// read another time.
  [[nodiscard]] __device__ __forceinline__ std::uint64_t now() const {
    std::uint64_t nanoseconds;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
    return __shfl_sync(~0U, nanoseconds, 0);
  }
  [[nodiscard]] __device__ __forceinline__ Byte* see(std::uint64_t address) const {
    return reinterpret_cast<Byte*>(address);
  }
  template <class T>
  [[nodiscard]] __device__ __forceinline__ T load(const Byte* from) const {
    T value;
    if constexpr (sizeof(T) == 16)
      asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(value.words[0]), "=r"(value.words[1]), "=r"(value.words[2]), "=r"(value.words[3])
                   : "l"(from)
                   : "memory");
    else
      value = *reinterpret_cast<const volatile T*>(from);
    return value;
  }
  /// All threads of the block meet here: before a parcel of all of them, and behind it.
  static __device__ __forceinline__ void meet() {
    asm volatile("barrier.sync 0, %0;" ::"n"(courier_threads) : "memory");
  }
  __device__ __forceinline__ void bring(Byte* to, const Byte* from, std::uint32_t bytes) const {
    if (bytes <= most_alone) return carry(*this, to, from, bytes, {lane, courier_lanes});
    if (lane == 0) {
      shared->to = to;
      shared->from = from;
      shared->bytes = bytes;
      shared->is_order = false;
    }
    meet();
    carry(*this, to, from, bytes, {lane, courier_threads});
    meet();
  }
  [[nodiscard]] __device__ __forceinline__ bool obey(const OrderParcel& parcel) const {
    MeetOrder order = parcel.order;
    order.send = see(parcel.send);
    order.receive = see(parcel.receive);
    if (shared->table.id != parcel.table_id) {
      constexpr std::uint32_t words = sizeof(MeetTable) / sizeof(device::u64);
      __syncwarp();
      for (std::uint32_t i = lane; i < words; i += courier_lanes)
        reinterpret_cast<device::u64*>(&shared->table)[i] =
            device::detail::load_word(reinterpret_cast<const device::u64*>(see(parcel.table)) + i);
    }
    const bool is_alone = order.bytes <= most_order_alone;
    if (!is_alone && lane == 0) {
      shared->order = order;
      shared->is_order = true;
      shared->from = reinterpret_cast<const Byte*>(&shared->table);  // not null: they stay
    }
    __syncwarp();
    if (is_alone) {
      // Who has been told that nobody waits is not heard: the host knows.
      static_cast<void>(OrderPart(shared->table, order, lane, courier_lanes).run());
      return true;
    }
    meet();
    static_cast<void>(OrderPart(shared->table, order, lane, courier_threads).run());
    meet();
    return true;
  }
  /// The other warps' life.
  __device__ __forceinline__ void help() const {
    for (;;) {
      meet();
      if (!shared->from) return;
      if (shared->is_order) {
        const MeetOrder order = shared->order;
        static_cast<void>(OrderPart(shared->table, order, lane, courier_threads).run());
      } else {
        carry(*this, shared->to, shared->from, shared->bytes, {lane, courier_threads});
      }
      meet();
    }
  }
  __device__ __forceinline__ void send_helpers_away() const {
    if (lane == 0) shared->from = nullptr;
    meet();
  }
  /// What was stored before is this GPU's own memory, where everybody looks for it in its L2: a fence for the
  /// GPU takes it there, also what helpers had stored before they met this warp. One for the system takes
  /// 0.3 us longer.
  __device__ __forceinline__ void tell(std::uint64_t* word, std::uint64_t value) const {
    __syncwarp();
    if (lane == 0)
      asm volatile(
          "fence.acq_rel.gpu;\n\t"
          "st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word),
          "l"(value)
          : "memory");
    __syncwarp();
  }
};

}  // namespace isthmus::kernel

#endif
