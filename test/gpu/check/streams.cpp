// Messages and collectives while a stream of the program waits for what the program does after them: they
// must not wait for the stream.
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "places.hpp"

namespace isthmus::gpu_check {
namespace {

constexpr unsigned blocking = 0;     // CU_STREAM_DEFAULT
constexpr unsigned nonblocking = 1;  // CU_STREAM_NON_BLOCKING

/// What is put on it later waits until the program lets go, or for `patience`: then MPI has waited for it.
class HeldStream {
 public:
  HeldStream(const Setting& setting, unsigned flags) : cuda_(setting.gpu.functions()) {
    void* word = nullptr;
    CHECK_CUDA(cuda_.host_allocate(&word, sizeof(std::uint32_t), 0));
    word_ = static_cast<std::uint32_t*>(word);
    set(0);
    CHECK_CUDA(cuda_.stream_create(&stream_, flags));
    CHECK_CUDA(cuda_.stream_wait_value_32(stream_, reinterpret_cast<cuda::Address>(word_), 1, equal));
    watch_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, patience, [this] { return is_over_; })) return;
      was_late_ = true;
      set(1);
    });
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  ~HeldStream() {
    CHECK_CUDA(cuda_.stream_destroy(stream_));
    CHECK_CUDA(cuda_.host_free(word_));
  }
  /// Whether it has been held until now.
  bool let_go() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    wake_.notify_all();
    watch_.join();
    const bool was_held = !was_late_ && cuda_.stream_query(stream_) == cuda::Status::not_ready;
    set(1);
    CHECK_CUDA(cuda_.stream_synchronize(stream_));
    return was_held;
  }

 private:
  static constexpr std::chrono::seconds patience{20};
  static constexpr unsigned equal = 1;  // CU_STREAM_WAIT_VALUE_EQ

  void set(std::uint32_t value) { std::atomic_ref(*word_).store(value); }

  const cuda::Functions& cuda_;
  std::uint32_t* word_ = nullptr;
  cuda::Stream stream_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_over_ = false;
  bool was_late_ = false;
  std::thread watch_;
};

constexpr std::size_t longest = std::size_t{4} << 20U;

/// Of one place. Rank 1 receives in cudaMalloc memory, so that pinned and pageable memory meet a GPU.
struct Buffers {
  Region out, in;

  Buffers(const Setting& setting, Place place)
      : out(setting, place, longest), in(setting, setting.rank == 0 ? place : Place::device, longest) {}
};

void pass_beside(const Setting& setting, Buffers& buffers, unsigned flags, bool is_held) {
  auto& [out, in] = buffers;
  const Place place = out.place();
  const int peer = 1 - setting.rank;
  const auto seed = [](int rank) { return mix(static_cast<unsigned>(rank + 7)); };
  out.fill(seed(setting.rank), longest);
  in.clear();
  MPI_Barrier(MPI_COMM_WORLD);
  std::optional<HeldStream> held;
  if (is_held) held.emplace(setting, flags);
  for (const std::size_t bytes :
       {std::size_t{8}, std::size_t{4096}, std::size_t{65'536}, std::size_t{1} << 20U, longest}) {
    const auto count = static_cast<int>(bytes);
    expect_success(MPI_Sendrecv(out.data(), count, MPI_BYTE, peer, 1, in.data(), count, MPI_BYTE, peer, 1,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                   "Sendrecv");
  }
  if (!is_host(place)) {
    // Both have the same bits afterwards, and rank 0 its own.
    expect_success(MPI_Bcast(out.data(), 1 << 20, MPI_BYTE, 0, MPI_COMM_WORLD), "Bcast");
    for (const int count : {8, 1 << 17})
      expect_success(MPI_Allreduce(MPI_IN_PLACE, out.data(), count, MPI_INT64_T, MPI_BOR, MPI_COMM_WORLD),
                     "Allreduce");
  }
  if (held)
    expect(held->let_go(), "MPI has waited for a stream of the program's: " + std::string(name_of(place)) +
                               (flags == blocking ? ", a blocking one" : ""));
  in.expect(seed(peer), longest, "beside a stream that waits");
  if (!is_host(place)) {
    const Bytes wanted = pattern(seed(0), std::size_t{1} << 20U);
    const Bytes got = out.read(wanted.size());
    expect(got == wanted, "collectives beside a stream that waits");
  }
}

}  // namespace

void check_streams(const Setting& setting) {
  using enum Place;
  // Kept until the end: to close what a peer has freed waits for all streams.
  std::vector<std::unique_ptr<Buffers>> all;
  for (const Place place : {device, shared_pool, default_pool, vmm, private_vmm, pinned, pageable, managed}) {
    all.push_back(std::make_unique<Buffers>(setting, place));
    for (const unsigned flags : {nonblocking, blocking}) {
      // The processor may not touch managed memory while the stream runs, nor the driver prefetch it.
      if (place == managed && flags == blocking) continue;
      // Once so that what is made with the first message is there: to make it may wait for streams.
      pass_beside(setting, *all.back(), flags, false);
      pass_beside(setting, *all.back(), flags, true);
    }
  }
}

}  // namespace isthmus::gpu_check
