#include <sys/prctl.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/pages.hpp"
#include "common/report.hpp"
#include "common/sizes.hpp"
#include "raw/limits.hpp"
#include "raw/pair.hpp"

namespace isthmus::bench {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t sizes[] = {mebibyte, 4 * mebibyte, 16 * mebibyte, 64 * mebibyte};

using Copy = void (*)(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes);

void ordinary_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  asm volatile("" : : "r"(to) : "memory");
}

#if defined(__SSE2__)
// Stores past the caches: no line of the target is read before it is overwritten.
void streaming_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  auto* target = reinterpret_cast<__m128i*>(to);
  const auto* source = reinterpret_cast<const __m128i*>(from);
  for (std::size_t i = 0; i < bytes / sizeof(__m128i); i += 4) {
    const __m128i a = _mm_load_si128(source + i);
    const __m128i b = _mm_load_si128(source + i + 1);
    const __m128i c = _mm_load_si128(source + i + 2);
    const __m128i d = _mm_load_si128(source + i + 3);
    _mm_stream_si128(target + i, a);
    _mm_stream_si128(target + i + 1, b);
    _mm_stream_si128(target + i + 2, c);
    _mm_stream_si128(target + i + 3, d);
  }
  _mm_sfence();
}
#endif

void by_one_core(double budget, const std::string& name, Copy copy, std::size_t bytes) {
  const Pinned pinned(usable_cores().front());
  Pages from(bytes);
  Pages to(bytes);
  from.fill(1, 1);
  const Samples samples =
      measure_leading(budget, [](long) {}, repeat([&] { copy(to.data(), from.data(), bytes); }));
  report_samples(name + "." + size_name(bytes), Unit::gigabytes_per_second, samples,
                 static_cast<double>(bytes));
}

// Two threads, a half each, between buffers of one process.
void by_two_cores(double budget, const std::string& name, Copy copy, std::size_t bytes) {
  const std::vector<int> cores = usable_cores();
  if (cores.size() < 2) return report_failure(name + "." + size_name(bytes), "two cores are needed");
  const Pinned pinned(cores[0]);
  Pages from(bytes);
  Pages to(bytes);
  from.fill(1, 1);
  const std::size_t half = bytes / 2;
  Announcement control;
  alignas(cache_line) std::atomic<long> finished{0};
  std::jthread helper([&] {
    const Pinned helper_pinned(cores[1]);
    long seen = 0;
    while (control.receive(seen) != 0) {
      copy(to.data() + half, from.data() + half, half);
      finished.store(seen, std::memory_order_release);
    }
  });
  long started = 0;
  const Samples samples = measure_leading(
      budget, [](long) {}, repeat([&] {
        control.announce(1);
        ++started;
        copy(to.data(), from.data(), half);
        while (finished.load(std::memory_order_acquire) != started) {
        }
      }));
  control.announce(0);
  report_samples(name + "." + size_name(bytes), Unit::gigabytes_per_second, samples,
                 static_cast<double>(bytes));
}

// Two processes with a buffer each; the leader's is the target.
struct CrossProcess {
  std::atomic<void*> source{nullptr};
  alignas(cache_line) std::atomic<std::uint64_t> wanted{0};
  alignas(cache_line) std::atomic<std::uint64_t> written{0};
  std::atomic<int> error{0};
};

using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

// Returns 0 or the errno; the kernel may copy less than asked for in one call.
int transfer_all(Transfer transfer, pid_t pid, std::uint8_t* local, std::uint8_t* remote, std::size_t bytes) {
  while (bytes > 0) {
    const iovec here{local, bytes};
    const iovec there{remote, bytes};
    const ssize_t done = transfer(pid, &here, 1, &there, 1, 0);
    if (done <= 0) return done < 0 ? errno : EIO;
    local += done;
    remote += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return 0;
}

// The leader reads its part of the follower's buffer while the follower writes the rest into the leader's.
void between_processes(double budget, const std::string& name, std::size_t bytes,
                       std::size_t read_by_leader) {
  const std::string point = name + "." + size_name(bytes);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // no effect, and none needed, without the Yama module
  const std::vector<int> cores = usable_cores();
  if (cores.size() < 2) return report_failure(point, "two cores are needed");
  Shared<CrossProcess> shared;
  Pages to(bytes);
  const pid_t leader = getpid();
  Child child([&] {
    const Pinned pinned(cores[1]);
    Pages from(bytes);
    from.fill(1, 1);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    shared->source.store(from.data(), std::memory_order_release);
    for (std::uint64_t turn = 1;; ++turn) {
      std::uint64_t wanted = 0;
      while ((wanted = shared->wanted.load(std::memory_order_acquire)) < turn) {
      }
      if (wanted == ~std::uint64_t{0}) return;
      if (read_by_leader < bytes)
        if (const int error = transfer_all(process_vm_writev, leader, from.data() + read_by_leader,
                                           to.data() + read_by_leader, bytes - read_by_leader))
          shared->error.store(error);
      shared->written.store(turn, std::memory_order_release);
    }
  });
  const Pinned pinned(cores[0]);
  void* source = nullptr;
  while ((source = shared->source.load(std::memory_order_acquire)) == nullptr) {
  }
  std::uint64_t turn = 0;
  int error = 0;
  const Samples samples = measure_leading(
      budget, [](long) {}, repeat([&] {
        shared->wanted.store(++turn, std::memory_order_release);
        if (const int failed = transfer_all(process_vm_readv, child.pid(), to.data(),
                                            static_cast<std::uint8_t*>(source), read_by_leader))
          error = failed;
        while (shared->written.load(std::memory_order_acquire) != turn) {
        }
      }));
  shared->wanted.store(~std::uint64_t{0}, std::memory_order_release);
  if (error == 0) error = shared->error.load();
  if (error != 0) return report_failure(point, std::strerror(error));
  if (to.mismatch(1, 1)) return report_failure(point, "wrong contents");
  report_samples(point, Unit::gigabytes_per_second, samples, static_cast<double>(bytes));
}

}  // namespace

void copy_limits(double budget) {
  for (const std::size_t bytes : sizes) {
    by_one_core(budget, "memcpy-1-core", ordinary_copy, bytes);
    by_two_cores(budget, "memcpy-2-cores", ordinary_copy, bytes);
#if defined(__SSE2__)
    by_one_core(budget, "streaming-1-core", streaming_copy, bytes);
    by_two_cores(budget, "streaming-2-cores", streaming_copy, bytes);
#endif
    between_processes(budget, "process_vm-1-side", bytes, bytes);
    between_processes(budget, "process_vm-2-sides", bytes, bytes / 2);
  }
}

}  // namespace isthmus::bench
