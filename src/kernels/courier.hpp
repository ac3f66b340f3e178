#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "gpu/driver/cuda_context.hpp"
#include "kernels/body/courier.hpp"
#include "kernels/gpu_kernels.hpp"

namespace isthmus {

/// Copies of up to 64 KiB, and this member's part of short collectives (body/order_part.hpp), by a block that
/// stays on the GPU and looks for them in pinned memory: what the host has to do for one is to write a cache
/// line, and to see a word change. A courier goes out with its first copy, and leaves when none has come for
/// a while, because whoever synchronises the device waits for it. It has a stream of its own, of the highest
/// priority. One thread at a time.
class Courier {
 public:
  struct Patience {
    std::chrono::nanoseconds idle{100'000};   ///< without a copy: then it leaves
    std::chrono::nanoseconds begin{100'000};  ///< for the GPU to find room for it: then it is recalled
  };
  enum class Fate : std::uint8_t {
    waiting,
    delivered,
    returned,  ///< not copied, and never will be: the GPU has no room for a courier
  };
  struct Counts {
    std::uint64_t parcels = 0;   ///< given to it, copies and orders
    std::uint64_t orders = 0;    ///< of them
    std::uint64_t sent_out = 0;  ///< how often a courier has been
    std::uint64_t left = 0;      ///< how often one has left for want of work
    std::uint64_t recalled = 0;
  };
  static constexpr std::size_t most_bytes = kernel::most_parcel_bytes;

  /// Fails where there are no kernels. Both must outlive it.
  static Result<std::unique_ptr<Courier>> make(cuda::PrimaryContexts& contexts, GpuKernels& kernels,
                                               cuda::Device device, Patience patience);
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;
  /// Waits until it has left.
  ~Courier();

  /// Whether it can take one more.
  [[nodiscard]] bool can_take(const std::byte* to, const std::byte* from, std::size_t bytes) const noexcept;
  /// Gives it a copy that it can take, between memories that the GPU's kernels reach; sends it out if it is
  /// not. The copy's number.
  Result<std::uint64_t> take(std::byte* to, const std::byte* from, std::size_t bytes);
  /// Whether it can take an order with those buffers. One at a time: two threads' orders would wait for each
  /// other where another member's courier has them in another order.
  [[nodiscard]] bool can_take(const kernel::MeetOrder& order) const noexcept;
  /// Gives it an order that it can take; as `take` of a copy. `table`: where the `MeetTable` with that id
  /// lies in memory of the GPU. An order whose members do not all come ends with the table's word `ended`.
  Result<std::uint64_t> take(const kernel::MeetOrder& order, const std::byte* table, std::uint64_t table_id);
  /// Of a copy or an order that it has taken, until it is no longer waiting. Fails if the GPU has.
  Result<Fate> look(std::uint64_t number) {
    if (number > returned_ && delivered() >= number) [[likely]]
      return Fate::delivered;
    return look_after(number);
  }
  /// Whether one has been sent out that has not left.
  [[nodiscard]] bool is_out() const noexcept;
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  /// Of the context that it was made in. After a reset of the device nothing may be asked of it but this and
  /// what it has counted.
  [[nodiscard]] cuda::ContextLife life() const noexcept { return life_; }

 private:
  using Clock = std::chrono::steady_clock;

  Courier(cuda::PrimaryContexts& contexts, GpuKernels& kernels, GpuStream where, kernel::CourierBoard& board,
          Patience patience)
      : contexts_(contexts),
        kernels_(kernels),
        where_(where),
        life_(contexts.life(where.device)),
        board_(board),
        patience_(patience) {}

  [[nodiscard]] std::uint64_t delivered() const noexcept;
  /// The last of which nothing is to be expected any more.
  [[nodiscard]] std::uint64_t settled() const noexcept;
  [[nodiscard]] bool has_room() const noexcept;
  void write(const kernel::ParcelSlot& parcel) noexcept;
  void write_copy(std::uint64_t from, std::uint64_t to, std::uint32_t bytes) noexcept;
  Result<std::uint64_t> hand_over();
  Result<> send_out();
  Result<Fate> look_after(std::uint64_t number);
  void recall() noexcept;
  void give_back() noexcept;

  cuda::PrimaryContexts& contexts_;
  GpuKernels& kernels_;
  const GpuStream where_;
  const cuda::ContextLife life_;
  kernel::CourierBoard& board_;
  const Patience patience_;
  std::uint64_t posted_ = 0;                         ///< parcels written
  std::uint64_t last_order_ = 0;                     ///< its number
  std::uint64_t first_returned_ = 0, returned_ = 0;  ///< those that were given back last
  std::uint64_t unheard_ = 0;                        ///< of them, those that nobody has looked at since
  std::uint64_t number_ = 0;                         ///< of the courier sent out last
  bool is_recalled_ = false;                         ///< that one will not begin
  bool has_begun_ = false;                           ///< it has, or has been recalled
  Clock::time_point sent_out_{}, asked_{};
  std::uint32_t looks_ = 0;
  Counts counts_;
};

}  // namespace isthmus
