// Reductions by kernels give bit for bit what the host's give, for every operation and type that have one.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "datatype/cursor.hpp"
#include "datatype/number_types.hpp"
#include "kernels/reduce_choice.hpp"
#include "kernels_fixture.hpp"

namespace isthmus::testing_cuda::kernels_reduce_test {
namespace {

constexpr std::array all_codes{OpCode::sum,    OpCode::prod,   OpCode::min,     OpCode::max,  OpCode::band,
                               OpCode::bor,    OpCode::bxor,   OpCode::land,    OpCode::lor,  OpCode::lxor,
                               OpCode::minloc, OpCode::maxloc, OpCode::replace, OpCode::no_op};

/// Numbers that eight of which can be multiplied in half precision; integers that are often equal, so that
/// places decide, or often 0, so that truth does.
void fill_value(Representation representation, std::byte* to, std::mt19937& random) {
  const Representation part = part_of(representation);
  with_number(part == Representation::none ? representation : part, 0, [&]<class T>(Number<T>) {
    for (std::size_t i = 0; i < (part == Representation::none ? 1U : 2U); ++i) {
      T value{};
      if constexpr (static_cast<T>(0.5) != T{})
        value =
            static_cast<T>((random() % 2 != 0 ? 1 : -1) * (0.5 + static_cast<double>(random() % 1024) / 680));
      else if (random() % 4 != 0)
        value = static_cast<T>(random() % 4 == 0 ? random() % 3 : random() * 0x1'0000'0001ULL);
      std::memcpy(to + i * sizeof(T), &value, sizeof value);
    }
    return 0;
  });
}

void fill_element(const Datatype& type, std::byte* to, std::mt19937& random) {
  if (const auto& parts = type.as_pair()) {
    // Few values, so that indices decide, which are often equal too.
    with_number(info(parts->value).representation, 0, [&]<class T>(Number<T>) {
      const auto value = static_cast<T>(random() % 3);
      std::memcpy(to, &value, sizeof value);
      return 0;
    });
    with_number(info(parts->index).representation, 0, [&]<class T>(Number<T>) {
      const auto index = static_cast<T>(static_cast<int>(random() % 7) - 3);
      std::memcpy(to + parts->index_offset, &index, sizeof index);
      return 0;
    });
  } else {
    fill_value(info(*type.as_basic()).representation, to, random);
  }
}

struct Case {
  std::int64_t count = 0;
  std::array<std::size_t, GpuKernels::most_sources + 1> shifts{};  ///< of the sources, and of the result
  std::size_t sources = 2;
  int in_place = -1;  ///< the source that is the result too
};

class ReduceKernels : public KernelTest {
 protected:
  static constexpr std::size_t room = 72000;
  static constexpr std::size_t margin = 64;

  /// Runs one case on the device and on the host and compares all memory.
  void compare(const Op& op, const Datatype& type, const Case& how) {
    std::vector<std::vector<std::byte>> host;
    std::vector<const std::byte*> sources;
    const auto extent = static_cast<std::size_t>(type.extent());
    const std::size_t used = static_cast<std::size_t>(how.count) * extent + 3 * margin;
    ASSERT_LE(used, room);
    for (std::size_t i = 0; i <= how.sources; ++i) {
      std::vector<std::byte> bytes(used);
      for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random());
      std::byte* data = bytes.data() + margin + how.shifts[i];
      for (std::int64_t k = 0; k < how.count; ++k)
        fill_element(type, data + static_cast<std::size_t>(k) * extent, random);
      memory(i).write(bytes);
      if (i < how.sources) sources.push_back(memory(i).data() + margin + how.shifts[i]);
      host.push_back(std::move(bytes));
    }
    const std::size_t target = how.in_place < 0 ? how.sources : static_cast<std::size_t>(how.in_place);
    std::byte* result = memory(target).data() + margin + how.shifts[target];
    auto done = engine.start([&](cuda::Stream stream) {
      return kernels.reduce({0, stream}, op, type, sources, result, how.count);
    });
    ASSERT_TRUE(done) << done.error().text();
    ASSERT_TRUE(done->wait());

    const auto at = [&](std::size_t i) { return host[i].data() + margin + how.shifts[i]; };
    // What is in nobody's part of a pair stays what it was in the result.
    std::vector<std::byte> sum(at(target), at(target) + how.count * type.extent());
    copy(type, at(0), how.count, type, sum.data(), how.count);
    for (std::size_t i = 1; i < how.sources; ++i) {
      std::vector<std::byte> next(at(i), at(i) + how.count * type.extent());
      ASSERT_TRUE(op.reduce(sum.data(), next.data(), sum.data(), how.count, type));
    }
    std::ranges::copy(sum, at(target));
    ASSERT_TRUE(memory(target).read(used) == host[target])
        << op.name() << " of " << how.count << " " << type.default_name() << " from " << how.sources
        << " sources, in place " << how.in_place << ", result at " << how.shifts[target];
  }

  DeviceBytes& memory(std::size_t i) {
    while (memory_.size() <= i)
      memory_.push_back(std::make_unique<DeviceBytes>(functions, room));
    return *memory_[i];
  }

  std::mt19937 random{7};

 private:
  std::vector<std::unique_ptr<DeviceBytes>> memory_;
};

template <class Visit>
void for_each_reduction(Visit visit) {
  for (const OpCode code : all_codes)
    for_each_basic([&](const BasicInfo& facts) {
      const Op& op = Op::predefined(code);
      const Datatype& type = Datatype::basic(facts.basic);
      if (GpuKernels::can_reduce(op, type)) visit(op, type);
    });
}

TEST_F(ReduceKernels, CombineAsTheHostDoesAtAnyAlignmentAndLength) {
  constexpr std::array<std::int64_t, 7> counts{1, 2, 15, 16, 17, 129, 4101};
  for_each_reduction([&](const Op& op, const Datatype& type) {
    const auto extent = static_cast<std::size_t>(type.extent());
    for (const std::int64_t count : counts) {
      if (HasFatalFailure()) return;
      compare(op, type, {.count = count});
    }
    if (HasFatalFailure()) return;
    compare(op, type, {.count = 77, .shifts = {extent, extent, extent}});
    compare(op, type, {.count = 77, .shifts = {0, extent, 2 * extent}});
    compare(op, type, {.count = 77, .shifts = {1, 3, 5}});
    compare(op, type, {.count = 77, .shifts = {4, 20, 36}});
  });
}

TEST_F(ReduceKernels, TakeUpToEightSourcesInTheirOrder) {
  for_each_reduction([&](const Op& op, const Datatype& type) {
    for (const std::size_t sources : {1U, 3U, 8U}) {
      if (HasFatalFailure()) return;
      compare(op, type, {.count = 333, .sources = sources});
      if (HasFatalFailure()) return;
      compare(op, type, {.count = 333, .shifts = {3, 7, 1, 9}, .sources = sources});
    }
  });
}

TEST_F(ReduceKernels, MayPutTheResultIntoASource) {
  for_each_reduction([&](const Op& op, const Datatype& type) {
    for (const int place : {0, 1, 3}) {
      if (HasFatalFailure()) return;
      compare(op, type, {.count = 1025, .sources = place == 3 ? 5U : 2U, .in_place = place});
    }
  });
}

TEST_F(ReduceKernels, PutTheResultInUpToEightPlaces) {
  constexpr std::size_t count = 1001;
  std::vector<std::int32_t> left(count);
  std::vector<std::int32_t> right(count);
  for (std::size_t i = 0; i < count; ++i) {
    left[i] = static_cast<std::int32_t>(random());
    right[i] = static_cast<std::int32_t>(random());
  }
  const Op& op = Op::predefined(OpCode::bxor);
  const Datatype& type = Datatype::basic(Basic::int32);
  std::vector<std::int32_t> both = right;
  ASSERT_TRUE(op.reduce(left.data(), both.data(), count, type));
  const auto bytes = std::as_bytes(std::span(both));
  for (const std::size_t apart : {0U, 1U, 4U, 16U}) {
    std::array<std::byte*, GpuKernels::most_results> results{};
    for (std::size_t i = 0; i < results.size(); ++i) {
      memory(i).write(std::vector(room, std::byte{0x55}));
      results[i] = memory(i).data() + margin + i * apart;
    }
    // The second source is the first result, as in a reduction in place.
    const auto begin_again = [&] {
      EXPECT_EQ(functions.copy(reinterpret_cast<cuda::Address>(results[0]),
                               reinterpret_cast<cuda::Address>(right.data()), bytes.size()),
                cuda::Status::success);
    };
    DeviceBytes source(functions, bytes.size());
    source.write(std::as_bytes(std::span(left)));
    const std::array<const std::byte*, 2> sources{source.data(), results[0]};
    for (const std::size_t places : {1U, 3U, 8U}) {
      begin_again();
      auto done = engine.start([&](cuda::Stream stream) {
        return kernels.reduce({0, stream}, op, type, sources, std::span(results).first(places), count);
      });
      ASSERT_TRUE(done) << done.error().text();
      ASSERT_TRUE(done->wait());
      for (std::size_t i = 0; i < places; ++i) {
        std::vector<std::byte> wanted(room, std::byte{0x55});
        std::ranges::copy(bytes, wanted.begin() + static_cast<std::ptrdiff_t>(margin + i * apart));
        ASSERT_TRUE(memory(i).read(room) == wanted) << i << " of " << places << ", " << apart << " apart";
      }
    }
  }
}

TEST_F(ReduceKernels, DealOutCopiesAtAnyAlignmentAndLength) {
  std::vector<std::byte> sent(room);
  for (std::byte& byte : sent)
    byte = static_cast<std::byte>(random());
  DeviceBytes source(functions, room);
  source.write(sent);
  for (const std::size_t bytes : {0U, 1U, 15U, 16U, 17U, 4100U, 70001U})
    for (const std::size_t ahead : {0U, 1U, 6U, 8U})
      for (const std::size_t apart : {0U, 1U, 2U, 4U, 8U, 16U})
        for (const std::size_t places : {1U, 3U, 8U}) {
          std::array<std::byte*, GpuKernels::most_results> to{};
          for (std::size_t i = 0; i < places; ++i) {
            memory(i).write(std::vector(room, std::byte{0x55}));
            to[i] = memory(i).data() + margin + ahead + i * apart;
          }
          auto done = engine.start([&](cuda::Stream stream) {
            return kernels.deal({0, stream}, source.data() + ahead, std::span(to).first(places), bytes);
          });
          ASSERT_TRUE(done) << done.error().text();
          ASSERT_TRUE(done->wait());
          for (std::size_t i = 0; i < places; ++i) {
            std::vector<std::byte> wanted(room, std::byte{0x55});
            std::copy_n(sent.begin() + static_cast<std::ptrdiff_t>(ahead), bytes,
                        wanted.begin() + static_cast<std::ptrdiff_t>(margin + ahead + i * apart));
            ASSERT_TRUE(memory(i).read(room) == wanted) << bytes << " bytes at " << ahead << ", place " << i
                                                        << " of " << places << ", " << apart << " apart";
          }
        }
}

TEST_F(ReduceKernels, TouchNothingForNoElements) {
  compare(Op::predefined(OpCode::sum), Datatype::basic(Basic::double_), {.count = 0});
}

/// Products of complex numbers recover infinities (C23, annex G), and comparisons take what they take for
/// NaN.
TEST_F(ReduceKernels, TreatInfinitiesAndNaNsAsTheHostDoes) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::array specials{0.0, -0.0, 1.5, -2.0, infinity, -infinity, nan, 1e308, 5e-324};
  std::vector<double> left;
  std::vector<double> right;
  for (const double a : specials)
    for (const double b : specials)
      for (const double c : specials)
        for (const double d : specials) {
          left.insert(left.end(), {a, b});
          right.insert(right.end(), {c, d});
        }
  const auto bytes = left.size() * sizeof(double);
  DeviceBytes a(functions, bytes);
  DeviceBytes b(functions, bytes);
  a.write(std::as_bytes(std::span(left)));
  const auto check = [&](OpCode code, Basic basic) {
    const Datatype& type = Datatype::basic(basic);
    const Op& op = Op::predefined(code);
    const auto count = static_cast<std::int64_t>(bytes) / type.extent();
    b.write(std::as_bytes(std::span(right)));
    const std::array<const std::byte*, 2> sources{a.data(), b.data()};
    auto done = engine.start(
        [&](cuda::Stream stream) { return kernels.reduce({0, stream}, op, type, sources, b.data(), count); });
    ASSERT_TRUE(done) << done.error().text();
    ASSERT_TRUE(done->wait());
    std::vector<double> expected = right;
    ASSERT_TRUE(op.reduce(left.data(), expected.data(), count, type));
    const std::vector<std::byte> got = b.read();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double value = 0;
      std::memcpy(&value, got.data() + i * sizeof value, sizeof value);
      const bool same = std::memcmp(&value, &expected[i], sizeof value) == 0 ||
                        (std::isnan(value) && std::isnan(expected[i]));
      ASSERT_TRUE(same) << op.name() << " of " << type.default_name() << ", number " << i << ": " << value
                        << " instead of " << expected[i];
    }
  };
  for (const OpCode code : {OpCode::sum, OpCode::prod})
    check(code, Basic::c_double_complex);
  for (const OpCode code : {OpCode::sum, OpCode::prod, OpCode::min, OpCode::max})
    check(code, Basic::double_);
}

TEST(ReduceChoice, EveryKernelIsChosenForSomethingAndEveryOperationHasItsTypes) {
  std::set<std::string> chosen;
  std::string without;
  for (const OpCode code : all_codes)
    for_each_basic([&](const BasicInfo& facts) {
      const Op& op = Op::predefined(code);
      const Datatype& type = Datatype::basic(facts.basic);
      if (const auto choice = choose_reduction(op, type))
        chosen.insert(choice->name);
      else if (op.accepts(type) && code != OpCode::replace && code != OpCode::no_op)
        without += std::string(op.name()) + " of " + std::string(facts.name) + "\n";
    });
  for (std::size_t i = 0; i < reduction_count(); ++i)
    EXPECT_TRUE(chosen.contains(std::string(reduction_name(i)))) << reduction_name(i);
  // What GPUs do not compute with.
  for (const char* type : {"MPI_LONG_DOUBLE", "MPI_REAL16", "MPI_COMPLEX32", "MPI_C_LONG_DOUBLE_COMPLEX",
                           "MPI_CXX_LONG_DOUBLE_COMPLEX", "MPI_LONG_DOUBLE_INT"})
    for (std::size_t at = 0; (at = without.find(" of " + std::string(type) + "\n")) != std::string::npos;) {
      const std::size_t begin = without.rfind('\n', at) + 1;
      without.erase(begin, without.find('\n', at) + 1 - begin);
    }
  EXPECT_EQ(without, "") << "operations that the host has and kernels have not";
}

}  // namespace
}  // namespace isthmus::testing_cuda::kernels_reduce_test
