// What kernels and copy engines take for the same work on this machine. Prints; asserts nothing of speed.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "datatype/cursor.hpp"
#include "datatype/make/array_types.hpp"
#include "datatype/make/construct.hpp"
#include "gpu/driver/gpu.hpp"
#include "kernels/courier.hpp"
#include "kernels_fixture.hpp"

namespace isthmus::testing_cuda {
namespace {

class KernelCost : public KernelTest {
 protected:
  static constexpr std::size_t most = std::size_t{256} << 20U;

  KernelCost() : here_(functions, most), also_here_(functions, most) {
    const auto gpus = GpuList::read(functions);
    if (!gpus || gpus->link(0, 1) == PeerLink::none) return;
    const auto other = contexts.of(1);
    if (!other) return;
    functions.context_enable_peer(*other, 0);
    const cuda::ContextScope scope(functions, *other);
    there_.emplace(functions, most);
  }
  ~KernelCost() override {
    if (!there_) return;
    const cuda::ContextScope scope(functions, *contexts.of(1));
    there_.reset();
  }

  /// Median of what `work` takes from its start to when the host sees it done, in microseconds.
  double time(const std::function<Result<>(cuda::Stream)>& work, int rounds = 21) {
    std::vector<double> times;
    for (int i = -3; i < rounds; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto copy = engine.start(work);
      EXPECT_TRUE(copy) << copy.error().text();
      if (!copy) return 0;
      while (!copy->is_done().value_or(true)) {
      }
      const double us =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
      if (i >= 0) times.push_back(us);
    }
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  /// The median of many launches at once, without waiting for each.
  double enqueue(const std::function<Result<>(cuda::Stream)>& work) {
    constexpr int launches = 200;
    const auto start = std::chrono::steady_clock::now();
    const auto copy = engine.start([&](cuda::Stream stream) -> Result<> {
      for (int i = 0; i < launches; ++i)
        ISTHMUS_TRY(work(stream));
      return {};
    });
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    EXPECT_TRUE(copy && copy->wait());
    return us / launches;
  }

  static void print(const std::string& what, double us, double bytes) {
    std::printf("  %-64s %10.2f us %9.1f GB/s\n", what.c_str(), us, bytes / us / 1000);
  }

  Result<> bring(cuda::Stream stream, std::byte* to, const std::byte* from, std::size_t bytes) {
    const auto status = functions.copy_async(reinterpret_cast<cuda::Address>(to),
                                             reinterpret_cast<cuda::Address>(from), bytes, stream);
    if (status != cuda::Status::success) return fail(ErrorClass::other, "a copy was refused");
    return {};
  }

  DeviceBytes here_, also_here_;
  std::optional<DeviceBytes> there_;
};

constexpr std::array<std::size_t, 8> sizes{8,         4096,      65536,      262144,
                                           1U << 20U, 4U << 20U, 16U << 20U, 64U << 20U};

TEST_F(KernelCost, OfLaunches) {
  const std::array<const std::byte*, 2> sources{here_.data(), here_.data() + 64};
  const Op& sum = Op::predefined(OpCode::sum);
  const Datatype& type = Datatype::basic(Basic::float_);
  print("enqueue a reduction of 8 B", enqueue([&](cuda::Stream stream) {
          return kernels.reduce({0, stream}, sum, type, sources, also_here_.data(), 2);
        }),
        8);
  print("enqueue a copy by the copy engine",
        enqueue([&](cuda::Stream stream) { return bring(stream, also_here_.data(), here_.data(), 8); }), 8);
  const CopyPiece piece{also_here_.data(), here_.data(), 8};
  print("enqueue a copy by kernel",
        enqueue([&](cuda::Stream stream) { return kernels.copy({0, stream}, {&piece, 1}); }), 8);
}

TEST_F(KernelCost, OfCopies) {
  const auto both = [&](const std::string& where, std::byte* to, const std::byte* from) {
    for (const std::size_t bytes : sizes) {
      const CopyPiece piece{to, from, bytes};
      const std::string what = where + ", " + std::to_string(bytes) + " B, ";
      const auto count = static_cast<double>(bytes);
      print(what + "copy engine", time([&](cuda::Stream stream) { return bring(stream, to, from, bytes); }),
            count);
      print(what + "kernel",
            time([&](cuda::Stream stream) { return kernels.copy({0, stream}, {&piece, 1}); }), count);
    }
  };
  both("on the GPU", also_here_.data(), here_.data());
  if (there_) both("from the peer", also_here_.data(), there_->data());
}

TEST_F(KernelCost, OfACourier) {
  const auto made = Courier::make(contexts, kernels, 0, {});
  ASSERT_TRUE(made) << made.error().text();
  Courier& courier = **made;
  const auto both = [&](const std::string& what, std::byte* to, const std::byte* from) {
    for (std::size_t bytes = 8; bytes <= Courier::most_bytes; bytes *= 2) {
      std::vector<double> times;
      for (int i = -50; i < 501; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const auto number = courier.take(to, from, bytes);
        ASSERT_TRUE(number) << number.error().text();
        Result<Courier::Fate> fate = Courier::Fate::waiting;
        while (fate && *fate == Courier::Fate::waiting)
          fate = courier.look(*number);
        ASSERT_TRUE(fate && *fate == Courier::Fate::delivered);
        if (i >= 0)
          times.push_back(
              std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
      }
      std::ranges::sort(times);
      const auto count = static_cast<double>(bytes);
      print("courier " + what + ", " + std::to_string(bytes) + " B", times[times.size() / 2], count);
      print("copy engine " + what + ", " + std::to_string(bytes) + " B",
            time([&](cuda::Stream stream) { return bring(stream, to, from, bytes); }), count);
    }
  };
  if (there_) both("from the peer", also_here_.data(), there_->data());
  both("on the GPU", also_here_.data(), here_.data());
}

TEST_F(KernelCost, OfReductions) {
  const auto reduce = [&](const std::string& what, const Op& op, Basic basic,
                          std::vector<const std::byte*> sources) {
    const Datatype& type = Datatype::basic(basic);
    for (const std::size_t bytes : sizes) {
      if (bytes > most / 8) continue;
      const std::int64_t count = std::max<std::int64_t>(static_cast<std::int64_t>(bytes) / type.extent(), 1);
      print(what + ", " + std::to_string(bytes) + " B", time([&](cuda::Stream stream) {
              return kernels.reduce({0, stream}, op, type, sources, also_here_.data(), count);
            }),
            static_cast<double>(bytes));
    }
  };
  const Op& sum = Op::predefined(OpCode::sum);
  constexpr std::size_t step = most / 8;
  const auto at = [&](const DeviceBytes& memory, std::size_t i) { return memory.data() + i * step; };
  reduce("sum of 2 local floats", sum, Basic::float_, {at(here_, 0), at(here_, 1)});
  reduce("sum of 2 local halves", sum, Basic::real2, {at(here_, 0), at(here_, 1)});
  reduce("sum of 2 local doubles, odd addresses", sum, Basic::double_, {at(here_, 0) + 1, at(here_, 1) + 2});
  reduce("maxloc of 2 local double_int", Op::predefined(OpCode::maxloc), Basic::double_int,
         {at(here_, 0), at(here_, 1)});
  if (!there_) return;
  reduce("sum of a local and a peer's floats", sum, Basic::float_, {at(here_, 0), at(*there_, 1)});
  reduce("sum of 4 peers' floats", sum, Basic::float_,
         {at(*there_, 0), at(*there_, 1), at(*there_, 2), at(*there_, 3)});
  std::vector<const std::byte*> eight;
  for (std::size_t i = 0; i < 8; ++i)
    eight.push_back(i % 2 == 0 ? at(here_, i) : at(*there_, i));
  reduce("sum of 8 floats, half of them a peer's", sum, Basic::float_, eight);
}

TEST_F(KernelCost, OfLayouts) {
  const auto by_pieces = [&](const LaidOut& from, std::byte* to, std::uint64_t bytes) {
    return time(
        [&](cuda::Stream stream) -> Result<> {
          Cursor cursor(*from.type, from.data, from.count);
          std::array<Segment, 1> next{};
          for (std::byte* at = to; cursor.segments(next, bytes) != 0; at += next[0].bytes)
            ISTHMUS_TRY(bring(stream, at, next[0].data, next[0].bytes));
          return {};
        },
        7);
  };
  const auto layout = [&](const std::string& what, Datatype& type, std::uint64_t bytes) {
    ASSERT_TRUE(type.commit());
    const LaidOut side{.data = here_.data(), .type = &type, .count = 1};
    const LaidOut run{.data = also_here_.data()};
    const auto count = static_cast<double>(bytes);
    const std::uint64_t blocks = Cursor(type, here_.data(), 1).size() /
                                 std::max<std::uint64_t>(Cursor(type, here_.data(), 1).mean_block(), 1);
    print(what + ": pack",
          time([&](cuda::Stream stream) { return kernels.move({0, stream}, side, run, bytes); }), count);
    print(what + ": unpack",
          time([&](cuda::Stream stream) { return kernels.move({0, stream}, run, side, bytes); }), count);
    if (there_)
      print(what + ": unpack from the peer", time([&](cuda::Stream stream) {
              return kernels.move({0, stream}, {.data = there_->data()}, side, bytes);
            }),
            count);
    if (blocks <= 1024)
      print(what + ": pack by copy engine", by_pieces(side, also_here_.data(), bytes), count);
  };
  Datatype& byte = Datatype::basic(Basic::byte);
  for (const std::int64_t blocks : {1, 2, 4, 8, 64})
    for (const std::int64_t block : {64, 16384, 262144})
      layout(std::to_string(blocks) + " blocks of " + std::to_string(block) + " B",
             **vector_type(blocks, block, 2 * block, byte, Form::large),
             static_cast<std::uint64_t>(blocks * block));
  for (const std::int64_t block : {1, 4, 8, 12, 16, 64, 1024})
    for (const std::int64_t bytes : {1 << 20, 64 << 20})
      layout(std::to_string(bytes >> 20U) + " MiB in blocks of " + std::to_string(block) + " B",
             **vector_type(bytes / block, block, 2 * block, byte, Form::large),
             static_cast<std::uint64_t>(bytes / block * block));
  for (const std::int64_t bytes : {1 << 20, 16 << 20}) {
    std::vector<std::int64_t> places(static_cast<std::size_t>(bytes / 8));
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] = static_cast<std::int64_t>(i * 16 + i * 7 % 2 * 8);
    layout(std::to_string(bytes >> 20U) + " MiB in 8 B irregularly",
           **hindexed_block_type(8, places, byte, Form::large), static_cast<std::uint64_t>(bytes));
  }
  const std::array<int, 3> cube{256, 256, 256};
  const std::array<int, 3> face{256, 256, 1};
  const std::array<int, 3> origin{0, 0, 1};
  layout("face of 256 x 256 doubles with stride 256",
         **subarray_type(std::span<const int>(cube), std::span<const int>(face), std::span<const int>(origin),
                         ArrayOrder::c, Datatype::basic(Basic::double_), Form::small),
         256UL * 256 * 8);
}

}  // namespace
}  // namespace isthmus::testing_cuda
