// Put, get and atomic operations from rank 0 into rank 1's window: latency and bandwidth, with each way to
// complete them.

#include <algorithm>

#include "suite/benchmarks/benchmark.hpp"
#include "suite/benchmarks/pair.hpp"

namespace isthmus::bench {
namespace {

enum class Operation : std::uint8_t { put, get, accumulate, get_accumulate, fetch_and_op, compare_and_swap };

// A window over memory of its own or over a buffer of ours, as -w says.
class ExposedMemory {
 public:
  ExposedMemory(const Job& job, std::size_t bytes) {
    if (job.options().window_kind == WindowKind::allocate) {
      void* base = nullptr;
      call(MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window_),
           "MPI_Win_allocate");
      data_ = static_cast<std::uint8_t*>(base);
      std::fill_n(data_, bytes, std::uint8_t{0});
    } else {
      buffer_ = job.buffer(bytes);
      data_ = buffer_->data();
      call(MPI_Win_create(data_, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_),
           "MPI_Win_create");
    }
    call(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  }
  ~ExposedMemory() {
    if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
  }
  ExposedMemory(const ExposedMemory&) = delete;
  ExposedMemory& operator=(const ExposedMemory&) = delete;
  [[nodiscard]] MPI_Win handle() const { return window_; }
  [[nodiscard]] std::uint8_t* data() const { return data_; }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  std::unique_ptr<Buffer> buffer_;
  std::uint8_t* data_ = nullptr;
};

// Groups with the one peer, for post and start.
class PeerGroup {
 public:
  explicit PeerGroup(int peer) {
    MPI_Group world = MPI_GROUP_NULL;
    call(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    call(MPI_Group_incl(world, 1, &peer, &group_), "MPI_Group_incl");
    call(MPI_Group_free(&world), "MPI_Group_free");
  }
  ~PeerGroup() { MPI_Group_free(&group_); }
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;
  [[nodiscard]] MPI_Group handle() const { return group_; }

 private:
  MPI_Group group_ = MPI_GROUP_NULL;
};

class Remote {
 public:
  Remote(const Job& job, Operation operation, std::size_t bytes, int count)
      : job_(job),
        operation_(operation),
        how_(job.options().synchronisation),
        bytes_(bytes),
        count_(count),
        window_(job, bytes * static_cast<std::size_t>(count)),
        local_(job.buffer(bytes * static_cast<std::size_t>(count))),
        result_(job.buffer(bytes * static_cast<std::size_t>(count))),
        peer_(1 - job.rank()) {
    if (how_ == Synchronisation::flush)
      call(MPI_Win_lock(MPI_LOCK_SHARED, peer_, 0, window_.handle()), "MPI_Win_lock");
  }
  ~Remote() {
    if (how_ == Synchronisation::flush) MPI_Win_unlock(peer_, window_.handle());
  }
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  // All operations of a window, and what completes them.
  void transfer() {
    const bool origin = job_.rank() == 0;
    begin(origin);
    for (int i = 0; origin && i < count_; ++i)
      issue(static_cast<std::size_t>(i) * bytes_);
    finish(origin);
  }

  // Contents are checked for those that only move them. Between the check and the transfer, a barrier: with
  // flush and lock the target takes no part.
  std::string fault(unsigned round) {
    if (operation_ != Operation::put && operation_ != Operation::get) return "";
    const bool writer = (job_.rank() == 0) == (operation_ == Operation::put);
    const std::size_t all = bytes_ * static_cast<std::size_t>(count_);
    std::vector<std::uint8_t> pattern(all);
    for (std::size_t i = 0; i < all; ++i)
      pattern[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8) + round * 59 + 1);
    if (writer && operation_ == Operation::put) local_->write(0, pattern);
    if (operation_ == Operation::get) local_->clear();
    access_window([&](std::uint8_t* data) {
      for (std::size_t i = 0; i < all; ++i)
        data[i] = writer ? pattern[i] : 0;
    });
    call(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    transfer();
    call(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    if (writer) return "";
    std::vector<std::uint8_t> got(all);
    if (operation_ == Operation::get) local_->read(0, got);
    if (operation_ == Operation::put)
      access_window([&](const std::uint8_t* data) { std::copy_n(data, all, got.begin()); });
    for (std::size_t i = 0; i < all; ++i)
      if (got[i] != pattern[i]) return "byte " + std::to_string(i) + " is wrong";
    return "";
  }

 private:
  // With passive targets, the window's own memory is read and written under a lock (MPI 4.1, section 12.7).
  template <class Access>
  void access_window(Access access) {
    if (how_ == Synchronisation::flush) call(MPI_Win_sync(window_.handle()), "MPI_Win_sync");
    access(window_.data());
    if (how_ == Synchronisation::flush) call(MPI_Win_sync(window_.handle()), "MPI_Win_sync");
  }

  void begin(bool origin) {
    switch (how_) {
      case Synchronisation::lock:
        if (origin) call(MPI_Win_lock(MPI_LOCK_SHARED, peer_, 0, window_.handle()), "MPI_Win_lock");
        break;
      case Synchronisation::fence:
        call(MPI_Win_fence(0, window_.handle()), "MPI_Win_fence");
        break;
      case Synchronisation::post_start:
        if (!peer_group_) peer_group_ = std::make_unique<PeerGroup>(peer_);
        if (origin) {
          call(MPI_Win_start(peer_group_->handle(), 0, window_.handle()), "MPI_Win_start");
        } else {
          call(MPI_Win_post(peer_group_->handle(), 0, window_.handle()), "MPI_Win_post");
        }
        break;
      case Synchronisation::flush:
        break;
    }
  }
  void finish(bool origin) {
    switch (how_) {
      case Synchronisation::flush:
        if (origin) call(MPI_Win_flush(peer_, window_.handle()), "MPI_Win_flush");
        break;
      case Synchronisation::lock:
        if (origin) call(MPI_Win_unlock(peer_, window_.handle()), "MPI_Win_unlock");
        break;
      case Synchronisation::fence:
        call(MPI_Win_fence(0, window_.handle()), "MPI_Win_fence");
        break;
      case Synchronisation::post_start:
        if (origin) {
          call(MPI_Win_complete(window_.handle()), "MPI_Win_complete");
        } else {
          call(MPI_Win_wait(window_.handle()), "MPI_Win_wait");
        }
        break;
    }
  }
  void issue(std::size_t at) {
    const int count = static_cast<int>(bytes_);
    const int words = static_cast<int>(bytes_ / sizeof(float));
    const auto there = static_cast<MPI_Aint>(at);
    std::uint8_t* const from = local_->data() + at;
    std::uint8_t* const to = result_->data() + at;
    switch (operation_) {
      case Operation::put:
        return call(MPI_Put(from, count, MPI_BYTE, peer_, there, count, MPI_BYTE, window_.handle()),
                    "MPI_Put");
      case Operation::get:
        return call(MPI_Get(from, count, MPI_BYTE, peer_, there, count, MPI_BYTE, window_.handle()),
                    "MPI_Get");
      case Operation::accumulate:
        return call(
            MPI_Accumulate(from, words, MPI_FLOAT, peer_, there, words, MPI_FLOAT, MPI_SUM, window_.handle()),
            "MPI_Accumulate");
      case Operation::get_accumulate:
        return call(MPI_Get_accumulate(from, words, MPI_FLOAT, to, words, MPI_FLOAT, peer_, there, words,
                                       MPI_FLOAT, MPI_SUM, window_.handle()),
                    "MPI_Get_accumulate");
      case Operation::fetch_and_op:
        return call(MPI_Fetch_and_op(from, to, MPI_INT64_T, peer_, there, MPI_SUM, window_.handle()),
                    "MPI_Fetch_and_op");
      case Operation::compare_and_swap:
        return call(MPI_Compare_and_swap(from, &compare_, to, MPI_INT64_T, peer_, there, window_.handle()),
                    "MPI_Compare_and_swap");
    }
  }

  const Job& job_;
  Operation operation_;
  Synchronisation how_;
  std::size_t bytes_;
  int count_;
  ExposedMemory window_;
  std::unique_ptr<Buffer> local_;
  std::unique_ptr<Buffer> result_;
  std::int64_t compare_ = 0;
  int peer_;
  std::unique_ptr<PeerGroup> peer_group_;
};

void latency(const Job& job, Operation operation, std::size_t bytes) {
  Remote remote(job, operation, bytes, 1);
  check(job, remote, 1);
  job.report(bytes, job.measure_loop([&remote] { remote.transfer(); }), {});
  check(job, remote, 2);
}

void bandwidth(const Job& job, Operation operation, std::size_t bytes) {
  Remote remote(job, operation, bytes, job.options().window);
  check(job, remote, 1);
  job.report(bytes, job.measure_loop([&remote] { remote.transfer(); }),
             {.quantity = Quantity::megabytes_per_second,
              .amount = static_cast<double>(bytes) * job.options().window});
  check(job, remote, 2);
}

Benchmark latency_row(std::string name, std::string meaning, Operation operation, std::size_t unit,
                      bool sized = true) {
  const unsigned features =
      Feature::one_sided | Feature::placement | (sized ? Feature::sizes : Feature::one_sided);
  return {
      std::move(name),
      "one-sided",
      std::move(meaning),
      Ranks::two,
      features,
      unit,
      [operation, sized](const Job& job, std::size_t bytes) { latency(job, operation, sized ? bytes : 8); },
      [](const Job&, std::size_t bytes) { return 3 * bytes; }};
}

Benchmark bandwidth_row(std::string name, std::string meaning, Operation operation, std::size_t unit) {
  return {std::move(name),
          "one-sided",
          std::move(meaning),
          Ranks::two,
          Feature::one_sided | Feature::placement | Feature::sizes | Feature::window,
          unit,
          [operation](const Job& job, std::size_t bytes) { bandwidth(job, operation, bytes); },
          [](const Job& job, std::size_t bytes) {
            return 3 * bytes * static_cast<std::size_t>(job.options().window);
          }};
}

}  // namespace

std::vector<Benchmark> one_sided_benchmarks() {
  return {
      latency_row("put_latency", "MPI_Put and what completes it", Operation::put, 1),
      latency_row("get_latency", "MPI_Get", Operation::get, 1),
      latency_row("acc_latency", "MPI_Accumulate: the sum of floats", Operation::accumulate, sizeof(float)),
      latency_row("get_acc_latency", "MPI_Get_accumulate", Operation::get_accumulate, sizeof(float)),
      latency_row("fop_latency", "MPI_Fetch_and_op of 8 bytes", Operation::fetch_and_op, 8, false),
      latency_row("cas_latency", "MPI_Compare_and_swap of 8 bytes", Operation::compare_and_swap, 8, false),
      bandwidth_row("put_bw", "a window of MPI_Put", Operation::put, 1),
      bandwidth_row("get_bw", "a window of MPI_Get", Operation::get, 1),
      bandwidth_row("acc_bw", "a window of MPI_Accumulate", Operation::accumulate, sizeof(float)),
  };
}

}  // namespace isthmus::bench
