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
#include "carry/leaving.hpp"
#include "carry/order.hpp"
#include "gpu/memory/pinned_pool.hpp"

namespace isthmus::abi {

class Carrier;

/// A port as its carrier sees it: what is asked for, and what becomes of it. By the carrier's thread, but
/// for `check`, which any thread calls.
class CarriedPort {
 public:
  struct Gpu {
    const cuda::Functions& functions;
    cuda::Device device;
    cuda::ContextObject* context;
  };
  explicit CarriedPort(const Gpu& gpu) : gpu_(gpu) {}
  CarriedPort(const CarriedPort&) = delete;
  CarriedPort& operator=(const CarriedPort&) = delete;
  virtual ~CarriedPort() = default;

  /// Why nothing is carried any more.
  [[nodiscard]] virtual Result<> check() const = 0;
  /// Whether a process has died since.
  virtual void look_for_losses() noexcept = 0;
  /// Nothing is carried any more, because of this.
  virtual void fail_for_good(Error why) noexcept = 0;

  /// Begins what has been asked for since. Whether there was something.
  virtual Result<bool> take_requests(Carrier& carrier) = 0;
  /// What was begun with that number is over here: what is put may be written again, what is got is there.
  virtual Result<> end(Carrier& carrier, std::uint64_t number) = 0;
  /// Nothing is asked for that is not over here.
  [[nodiscard]] virtual bool is_idle() const = 0;
  /// Lets the stream set a signal of this process.
  virtual Result<> set_signal(const carry::Order& order, cuda::Stream stream) = 0;
  /// The thread ends, and touches no memory of the program's any more.
  virtual void close() noexcept {}
  /// But for the shares, which the carrier knows.
  [[nodiscard]] virtual carry::Limits limits() const = 0;

  [[nodiscard]] const cuda::Functions& functions() const noexcept { return gpu_.functions; }
  [[nodiscard]] cuda::Device device() const noexcept { return gpu_.device; }
  [[nodiscard]] cuda::Context context() const noexcept { return gpu_.context; }

 private:
  const Gpu gpu_;
};

/// Carries what kernels and streams put and get where they do not reach, to other hosts above all: a thread
/// takes what the port is asked for, and sends each request as an order by a message of MPI, and the bytes by
/// others; and it does what other processes' carriers order. Orders of one process are done in their order: a
/// signal is set, and a get begins, when the bytes of all before it have come.
///
/// Bytes go in chunks through memory that is pinned when it starts, and by streams that are made then: to pin
/// or unpin, or to open what a peer has, may wait for the very kernel or stream that waits for the bytes. So
/// a message of GPU memory, which would do that, is none of its means. A chunk is received when it is there,
/// so no memory is kept for a process that waits for others.
class Carrier final : public carry::Leaving {
 public:
  /// Collective over `comm`, which it duplicates.
  static Result<std::unique_ptr<Carrier>> start(std::unique_ptr<CarriedPort> port,
                                                cuda::PrimaryContexts& contexts, MPI_Comm comm);
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;
  /// As `stop`.
  ~Carrier() override;

  // By the program's thread, without the engine's lock.

  /// What this process shares.
  void set_share(std::uint32_t number, std::byte* data, std::size_t bytes);
  /// From now on nothing is read from it or written to it: bytes that come for it are dropped, and a process
  /// that would get some is an error.
  void forget_share(std::uint32_t number);
  /// Collective: until all that was asked for is done everywhere. Fails where the port has.
  Result<> drain();
  /// Ends the thread; what is under way is given up.
  void stop() noexcept;
  /// Not collective: it goes on, for the others, until all have left, and asks for nothing more.
  void leave() noexcept override { leaving_.store(true, std::memory_order_release); }
  /// The thread has ended: all have left, or the port has failed.
  [[nodiscard]] bool is_over() const noexcept override { return over_.load(std::memory_order_acquire); }

  // By the port, with the carrier's thread.

  /// Sends an order. `local`: where its bytes lie, or come to. `number`, not 0, is what the port is told at
  /// the end, which may be at once.
  Result<> begin(int rank, const carry::Order& order, cuda::Address local, std::uint64_t number);

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
    cuda::Address local = 0;   ///< of a get
    std::uint64_t bytes = 0;
    carry::Order order;  ///< of a put: where they go, and its signal; of another process's get: what it gets
  };
  struct Buffer {
    std::byte* data = nullptr;
    cuda::Event copied = nullptr;
    MPI_Request message = MPI_REQUEST_NULL;
    bool is_last = false;  ///< of its transfer
    std::size_t bytes = 0;
    std::uint64_t begun = 0;  ///< bytes of the transfer before it
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
    std::unique_ptr<carry::Order> order;
  };

  Carrier(std::unique_ptr<CarriedPort> port, MPI_Comm comm) : port_(std::move(port)), comm_(comm) {}
  Result<> prepare(cuda::PrimaryContexts& contexts);
  void run() noexcept;
  Result<bool> look();
  Result<bool> take_requests();
  Result<> send_order(int rank, const carry::Order& order);
  Result<bool> end_orders();
  Result<bool> take_orders();
  Result<> listen();
  Result<> obey(int source, const carry::Order& order);
  Result<cuda::Address> check_order(const carry::Order& order);
  Result<> give(int to, const carry::Order& order);
  Result<bool> send_chunks();
  Result<bool> receive_chunks();
  Result<bool> receive_chunk(Lane& lane);
  Result<bool> land_chunks();
  Result<> land(Buffer& buffer);
  Result<bool> end_signals(Lane& lane);
  Result<> copy(cuda::Address to, cuda::Address from, std::size_t bytes, cuda::Stream stream,
                cuda::Event event) const;
  Result<bool> is_copied(cuda::Event event) const;
  Result<> say_to_all(carry::Kind kind);
  [[nodiscard]] bool all_have_left() const;
  void fail_for_good(Error why) noexcept;
  void give_up() noexcept;

  const std::unique_ptr<CarriedPort> port_;
  MPI_Comm comm_;
  int rank_ = 0;
  std::size_t ranks_ = 0;
  cuda::Stream out_stream_ = nullptr, in_stream_ = nullptr;
  std::unique_ptr<PinnedPages> pinned_;
  std::deque<Sent> orders_;
  std::deque<Leaving> leaving_bytes_;
  std::uint64_t left_ = 0;   ///< bytes of the first of them that have a buffer
  std::vector<Lane> lanes_;  ///< puts by source, then gets
  Ring out_, in_;
  carry::Order heard_;
  MPI_Request hearing_ = MPI_REQUEST_NULL;
  bool has_left_ = false;  ///< and said so
  std::size_t others_left_ = 0;
  std::mutex mutex_;  ///< guards what follows
  std::vector<std::byte*> shares_;
  std::vector<std::size_t> share_bytes_;
  std::vector<bool> is_forgotten_;
  std::vector<std::uint64_t> sent_, done_;  ///< orders, by rank
  bool is_idle_ = true;
  std::uint64_t looks_ = 0;
  std::atomic<bool> ending_{false}, leaving_{false}, over_{false};
  std::thread thread_;
};

}  // namespace isthmus::abi
