// What other streams do while one waits for a word: `src/stream` needs that they go on. Prints who does;
// fails where nobody does.
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "kernels_fixture.hpp"

namespace isthmus::testing_cuda {
namespace {

using cuda::Status;

class WaitingStreams : public KernelTest {
 protected:
  static constexpr std::size_t count = 40;
  /// The driver takes the highest that there is.
  static constexpr int highest_priority = -1000;
  enum class Work { kernels, copies };

  /// A stream waits, and each other one has something to do: a `1` for each that gets it done.
  std::string who_goes_on(int priority, Work work) {
    void* word = nullptr;
    EXPECT_EQ(functions.host_allocate(&word, 64, 0), Status::success);
    __atomic_store_n(static_cast<unsigned*>(word), 0U, __ATOMIC_RELEASE);
    cuda::Stream waiting = nullptr;
    EXPECT_EQ(functions.stream_create(&waiting, cuda::stream_non_blocking), Status::success);
    std::vector<cuda::Stream> others(count);
    for (cuda::Stream& stream : others)
      EXPECT_EQ(functions.stream_create_with_priority(&stream, cuda::stream_non_blocking, priority),
                Status::success);
    // Loaded before: that may wait for all streams.
    EXPECT_TRUE(put(others[0], 0, Work::kernels));
    EXPECT_TRUE(put(waiting, 0, Work::kernels));
    EXPECT_EQ(functions.context_synchronize(), Status::success);
    EXPECT_EQ(
        functions.stream_wait_value_32(waiting, reinterpret_cast<cuda::Address>(word), 1, cuda::wait_equal),
        Status::success);
    EXPECT_TRUE(put(waiting, 0, Work::kernels));
    std::vector<cuda::Event> ends(count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(functions.event_create(&ends[i], cuda::event_disable_timing), Status::success);
      EXPECT_TRUE(put(others[i], i, work));
      EXPECT_EQ(functions.event_record(ends[i], others[i]), Status::success);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    std::string who;
    for (const cuda::Event end : ends)
      who += functions.event_query(end) == Status::success ? '1' : '.';
    __atomic_store_n(static_cast<unsigned*>(word), 1U, __ATOMIC_RELEASE);
    EXPECT_EQ(functions.context_synchronize(), Status::success);
    for (const cuda::Event end : ends)
      functions.event_destroy(end);
    for (const cuda::Stream stream : others)
      functions.stream_destroy(stream);
    functions.stream_destroy(waiting);
    functions.host_free(word);
    return who;
  }

  [[nodiscard]] bool put(cuda::Stream stream, std::size_t i, Work work) {
    const CopyPiece piece{to_.data() + 64 * i, from_.data() + 64 * i, 64};
    if (work == Work::kernels) return kernels.copy({0, stream}, {&piece, 1}).has_value();
    return functions.copy_async(reinterpret_cast<cuda::Address>(piece.to),
                                reinterpret_cast<cuda::Address>(piece.from), piece.bytes,
                                stream) == Status::success;
  }

 private:
  DeviceBytes from_{functions, 64 * count}, to_{functions, 64 * count};
};

TEST_F(WaitingStreams, LetOthersGoOn) {
  for (const auto& [name, priority] : {std::pair{"normal", 0}, {"highest", highest_priority}}) {
    for (const auto& [what, work] : {std::pair{"kernels", Work::kernels}, {"copies", Work::copies}}) {
      const std::string who = who_goes_on(priority, work);
      std::printf("  %s of %zu streams of %s priority: %s\n", what, count, name, who.c_str());
      EXPECT_NE(who.find('1'), std::string::npos) << what << " of streams of " << name << " priority";
    }
  }
}

}  // namespace
}  // namespace isthmus::testing_cuda
