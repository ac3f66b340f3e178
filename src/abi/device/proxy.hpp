#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "device/order.hpp"
#include "device/port.hpp"
#include "gpu/memory/pinned_pool.hpp"

namespace isthmus::abi {

/// Carries what kernels put and get where no kernel reaches, to other hosts above all: a thread takes the
/// requests that kernels of this process write, and sends each as an order by a message of MPI, and the bytes
/// by others; and it does what other processes' proxies order. Orders of one process are done in their order:
/// a signal is set when the bytes of all before it have come.
///
/// Bytes go in chunks through memory that is pinned when it starts, and by streams that are made then: to pin
/// or unpin, or to open what a peer has, may wait for the very kernel that waits for the bytes. So a message
/// of GPU memory, which would do that, is none of its means. A chunk is received when it is there, so no
/// memory is kept for a process that waits for others.
class DeviceProxy {
 public:
  /// Collective over `comm`, which it duplicates. The port must outlive it.
  static Result<std::unique_ptr<DeviceProxy>> start(device::Port& port, cuda::PrimaryContexts& contexts,
                                                    MPI_Comm comm);
  DeviceProxy(const DeviceProxy&) = delete;
  DeviceProxy& operator=(const DeviceProxy&) = delete;
  /// As `stop`.
  ~DeviceProxy();

  /// What this process shares; no bytes: no more. By the program's thread.
  void set_share(std::uint32_t number, std::byte* data, std::size_t bytes);
  /// Collective: until all that kernels have asked for is done everywhere. By the program's thread; fails
  /// where the port has.
  Result<> drain();
  /// Ends the thread; what is under way is given up. Without the engine's lock.
  void stop() noexcept;

 private:
  static constexpr std::size_t chunk = std::size_t{256} << 10U;
  static constexpr std::size_t buffers = 8;  ///< in each direction

  /// Bytes on their way out, from the GPU.
  struct Leaving {
    std::uint64_t number = 0;  ///< of the request; 0: another process's get
    int to = 0;
    int tag = 0;
    cuda::Address from = 0;
    std::uint64_t bytes = 0;
  };
  /// Bytes that come, and a signal behind them.
  struct Coming {
    std::uint64_t number = 0;  ///< of the request that gets them; 0: another process's put
    cuda::Address to = 0;
    std::uint64_t bytes = 0;
    device::Order order;  ///< its signal
  };
  struct Buffer {
    std::byte* data = nullptr;
    cuda::Event copied = nullptr;
    MPI_Request message = MPI_REQUEST_NULL;
    bool is_last = false;  ///< of its transfer
    std::size_t bytes = 0;
    Leaving out;
    Coming in;
  };
  /// Buffers in use, in the order in which they were taken.
  struct Ring {
    std::array<Buffer, buffers> all;
    std::size_t first = 0, sending = 0, used = 0;

    [[nodiscard]] Buffer& at(std::size_t i) noexcept { return all[(first + i) % buffers]; }
  };
  /// Bytes of one process, in their order; puts and gets have each their own.
  struct Lane {
    int source = 0;
    int tag = 0;
    std::deque<Coming> coming;
    std::uint64_t begun = 0;  ///< bytes of the first of them that have a buffer
  };
  struct Sent {
    MPI_Request message = MPI_REQUEST_NULL;
    std::unique_ptr<device::Order> order;
  };

  DeviceProxy(device::Port& port, MPI_Comm comm) : port_(port), comm_(comm) {}
  Result<> prepare(cuda::PrimaryContexts& contexts);
  void run() noexcept;
  Result<bool> look();
  Result<bool> take_requests();
  Result<> begin(const isthmus_device_request& request);
  Result<bool> end_orders();
  Result<bool> take_orders();
  Result<> listen();
  Result<> obey(int source, const device::Order& order);
  Result<> check_order(const device::Order& order, cuda::Address& data);
  Result<bool> send_chunks();
  Result<bool> receive_chunks();
  Result<bool> receive_chunk(Lane& lane);
  Result<bool> land_chunks();
  Result<bool> end_signals(Lane& lane);
  Result<> set_signal(const device::Order& order) const;
  Result<> copy(cuda::Address to, cuda::Address from, std::size_t bytes, cuda::Stream stream,
                cuda::Event event) const;
  Result<bool> is_copied(cuda::Event event) const;
  void give_up() noexcept;

  device::Port& port_;
  MPI_Comm comm_;
  cuda::Stream out_stream_ = nullptr, in_stream_ = nullptr;
  std::unique_ptr<PinnedPages> pinned_;
  std::uint64_t next_ = 1;  ///< request
  device::InOrder requests_;
  std::deque<Sent> orders_;
  std::deque<Leaving> leaving_;
  std::uint64_t left_ = 0;   ///< bytes of the first of them that have a buffer
  std::vector<Lane> lanes_;  ///< puts by source, then gets
  Ring out_, in_;
  device::Order heard_;
  MPI_Request hearing_ = MPI_REQUEST_NULL;
  std::mutex mutex_;  ///< guards what follows
  std::vector<std::byte*> shares_;
  std::vector<std::size_t> share_bytes_;
  std::vector<std::uint64_t> sent_, done_;  ///< orders, by rank
  bool is_idle_ = true;
  std::uint64_t looks_ = 0;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace isthmus::abi
