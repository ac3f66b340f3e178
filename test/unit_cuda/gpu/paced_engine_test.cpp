// Copies of two GPUs that give each other turns by a word in memory of the host.
#include "gpu/copy/paced_engine.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "cuda_fixture.hpp"

namespace isthmus::testing_cuda {
namespace {

using testing::Each;
using testing::HasSubstr;
using Side = PacedEngine::Side;

class PacedEngineTest : public CudaTest {
 protected:
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t bytes = 1000;

  PacedEngineTest() : contexts_(functions) {
    void* const mapped = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(mapped), page};
    word_ = new (mapped) std::atomic<std::uint64_t>(4096);
    auto pinned = PinnedRange::pin(contexts_, 0, memory_);
    EXPECT_TRUE(pinned);
    pinned_.emplace(std::move(*pinned));
    from_ = allocate(bytes);
    window_ = allocate(bytes);
    to_ = allocate(bytes);
    EXPECT_EQ(functions.fill(from_, 9, bytes), Status::success);
    EXPECT_EQ(functions.fill(to_, 1, bytes), Status::success);
  }
  ~PacedEngineTest() override {
    for (const cuda::Address each : {from_, window_, to_})
      EXPECT_EQ(functions.free(each), Status::success);
    pinned_.reset();
    ::munmap(memory_.data(), page);
  }

  [[nodiscard]] std::unique_ptr<PacedEngine> make(Side side) {
    auto made = PacedEngine::make(contexts_, 0, *pinned_, *word_, side);
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }
  [[nodiscard]] PacedEngine::Work copy(cuda::Address to, cuda::Address from) const {
    return [this, to, from](cuda::Stream stream) -> Result<> {
      if (functions.copy_async(to, from, bytes, stream) == Status::success) return {};
      return fail(ErrorClass::other, "the copy");
    };
  }

  cuda::PrimaryContexts contexts_;
  std::span<std::byte> memory_;
  std::atomic<std::uint64_t>* word_ = nullptr;
  std::optional<PinnedRange> pinned_;
  cuda::Address from_ = 0, window_ = 0, to_ = 0;
};

TEST_F(PacedEngineTest, TheWordIsAsBeforeUntilThereIsWork) {
  const auto out = make(Side::writes);
  const auto in = make(Side::waits);
  EXPECT_EQ(word_->load(), 4096U);
  EXPECT_EQ(out->under_way() + in->under_way(), 0U);
}

TEST_F(PacedEngineTest, WhatWaitsBeginsWhenTheOtherHasDoneItsPart) {
  const auto out = make(Side::writes);
  const auto in = make(Side::waits);
  auto taken = in->start_when(4096 + bytes, copy(to_, window_));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->is_done(), false) << "nothing has come";
  auto put = out->start_and_tell(4096 + bytes, copy(window_, from_));
  ASSERT_TRUE(put && put->wait() && taken->wait());
  EXPECT_EQ(word_->load(), 4096 + bytes);
  EXPECT_THAT(read(to_, bytes), Each(9));
}

TEST_F(PacedEngineTest, TheWordIsWrittenBehindTheWorkBeforeIt) {
  const auto out = make(Side::writes);
  const Fault slow("MEGABYTES_PER_SECOND", "1", "0");
  auto put = out->start_and_tell(8192, copy(window_, from_));
  ASSERT_TRUE(put);
  EXPECT_EQ(word_->load(), 4096U) << "the copy takes 1 ms";
  ASSERT_TRUE(put->wait());
  EXPECT_EQ(word_->load(), 8192U);
}

TEST_F(PacedEngineTest, AProcessorLetsGoOfWhatWaits) {
  const auto in = make(Side::waits);
  auto taken = in->start_when(1U << 20U, copy(to_, from_));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->is_done(), false);
  word_->store(1U << 20U);
  ASSERT_TRUE(taken->wait());
  EXPECT_THAT(read(to_, bytes), Each(9));
}

TEST_F(PacedEngineTest, WorkThatFailsTellsNothing) {
  const auto out = make(Side::writes);
  const auto started =
      out->start_and_tell(8192, [](cuda::Stream) -> Result<> { return fail(ErrorClass::other, "no work"); });
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().text(), "no work");
  EXPECT_EQ(word_->load(), 4096U);
}

TEST_F(PacedEngineTest, ADriverThatRefusesItIsFoundOutAtOnce) {
  const Fault refused("REFUSE", "memops", "");
  for (const Side side : {Side::writes, Side::waits}) {
    const auto made = PacedEngine::make(contexts_, 0, *pinned_, *word_, side);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().text(),
                HasSubstr(side == Side::writes ? "cuStreamWriteValue64" : "cuStreamWaitValue64"));
  }
}

TEST_F(PacedEngineTest, EndsWithTheDevice) {
  auto out = make(Side::writes);
  EXPECT_FALSE(out->is_over());
  reset_device();
  ASSERT_TRUE(contexts_.check_alive(0));
  EXPECT_TRUE(out->is_over());
  out.reset();
  for (cuda::Address* each : {&from_, &window_, &to_})
    *each = allocate(bytes);  // the reset has freed them
}

}  // namespace
}  // namespace isthmus::testing_cuda
