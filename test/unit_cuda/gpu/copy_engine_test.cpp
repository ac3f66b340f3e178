#include "gpu/copy/engine.hpp"

#include "cuda_fixture.hpp"

namespace isthmus::testing_cuda::copy_engine_test {
namespace {

using testing::Each;
using testing::HasSubstr;

class CopyEngineTest : public CudaTest {
 protected:
  static std::byte* at(cuda::Address address) { return reinterpret_cast<std::byte*>(address); }
  cuda::PrimaryContexts contexts{functions};
};

TEST_F(CopyEngineTest, CopiesBetweenAllMemoryWithoutWaiting) {
  CopyEngine engine(contexts, 0);
  const cuda::Address here = allocate(1000);
  cuda::Context second = *contexts.of(1);
  cuda::Address there = 0;
  {
    const cuda::ContextScope scope(functions, second);
    there = allocate(1000);
  }
  EXPECT_EQ(functions.fill(here, 3, 1000), Status::success);
  {
    const Fault slow("MEGABYTES_PER_SECOND", "1", "0");
    const auto copy = engine.start(at(there), at(here), 1000);
    ASSERT_TRUE(copy) << copy.error().text();
    EXPECT_EQ(copy->is_done(), false) << "it takes 1 ms";
    EXPECT_TRUE(copy->wait());
    EXPECT_EQ(copy->is_done(), true);
  }
  EXPECT_THAT(read(there, 1000), Each(3));
  EXPECT_EQ(functions.free(here), Status::success);
  EXPECT_EQ(functions.free(there), Status::success);
}

TEST_F(CopyEngineTest, TakesNoPartInTheProgramsStreams) {
  CopyEngine engine(contexts, 0);
  const cuda::Address memory = allocate(100);
  void* gate = nullptr;
  ASSERT_EQ(functions.host_allocate(&gate, 64, 0), Status::success);
  EXPECT_EQ(functions.stream_wait_value_32(nullptr, address_of(gate), 1, cuda::wait_equal), Status::success);
  std::vector<std::byte> bytes(100, std::byte{7});
  const auto copy = engine.start(at(memory), bytes.data(), bytes.size());
  ASSERT_TRUE(copy);
  EXPECT_TRUE(copy->wait()) << "the legacy stream waits meanwhile";
  __atomic_store_n(static_cast<unsigned*>(gate), 1U, __ATOMIC_RELEASE);
  EXPECT_EQ(functions.stream_synchronize(nullptr), Status::success);
  EXPECT_THAT(read(memory, 100), Each(7));
  EXPECT_EQ(functions.host_free(gate), Status::success);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(CopyEngineTest, DoesNotDisturbACapture) {
  CopyEngine engine(contexts, 0);
  const cuda::Address memory = allocate(100);
  cuda::Stream stream = nullptr;
  ASSERT_EQ(functions.stream_create(&stream, cuda::stream_default), Status::success);
  ASSERT_EQ(functions.stream_begin_capture(stream, cuda::CaptureMode::global), Status::success);
  {
    const auto copy = engine.start(at(memory), at(memory) + 50, 50);
    ASSERT_TRUE(copy) << copy.error().text();
    while (!copy->is_done().value_or(true)) {
    }
  }
  cuda::Graph graph = nullptr;
  EXPECT_EQ(functions.stream_end_capture(stream, &graph), Status::success);
  EXPECT_EQ(functions.graph_destroy(graph), Status::success);
  EXPECT_EQ(functions.stream_destroy(stream), Status::success);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(CopyEngineTest, CopiesUnderWayAtAResetFailAndLaterOnesArrive) {
  CopyEngine engine(contexts, 0, 2, 1000);
  std::vector<std::byte> bytes(100, std::byte{7});
  {
    const cuda::Address memory = allocate(100);
    const auto done = engine.start(at(memory), at(memory) + 50, 50);
    ASSERT_TRUE(done && done->wait());
    const auto polled = engine.start(at(memory), bytes.data(), 100);
    const auto waited = engine.start(at(memory), at(memory) + 50, 50);
    const auto dropped = engine.start(at(memory), at(memory) + 50, 50);
    ASSERT_TRUE(polled && waited && dropped);
    reset_device();
    EXPECT_TRUE(done->is_done().value_or(false));
    const auto is_done = polled->is_done();
    ASSERT_FALSE(is_done);
    EXPECT_THAT(is_done.error().text(), HasSubstr("has reset GPU 0 while a message was copied"));
    EXPECT_FALSE(waited->wait());
    EXPECT_FALSE(polled->wait()) << "for good";
  }
  ASSERT_TRUE(contexts.check_alive(0));
  const cuda::Address memory = allocate(100);
  for (int round = 0; round < 3; ++round) {
    bytes.assign(100, std::byte{static_cast<unsigned char>(round)});
    const auto copy = engine.start(at(memory), bytes.data(), 100);
    ASSERT_TRUE(copy) << copy.error().text();
    EXPECT_TRUE(copy->wait());
    EXPECT_THAT(read(memory, 100), Each(round));
  }
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(CopyEngineTest, AResetDeviceIsAnErrorUntilTheProgramUsesItAgain) {
  ASSERT_TRUE(contexts.of(0));
  const cuda::ContextLife before = contexts.life(0);
  using Reset = Status (*)(cuda::Device);
  EXPECT_EQ(reinterpret_cast<Reset>(symbol("cuDevicePrimaryCtxReset_v2"))(0), Status::success);
  const auto dead = contexts.check_alive(0);
  ASSERT_FALSE(dead);
  EXPECT_THAT(dead.error().text(), HasSubstr("has reset GPU 0 and not used it since"));
  EXPECT_EQ(contexts.life(0), before) << "nobody has begun another";
  EXPECT_FALSE(contexts.is_alive(0, before));
  reset_device();
  EXPECT_TRUE(contexts.check_alive(0));
  EXPECT_NE(contexts.life(0), before);
  EXPECT_FALSE(contexts.is_alive(0, before));
  EXPECT_EQ(contexts.renewals(), 1U);
}

TEST_F(CopyEngineTest, UsesItsEventsAgain) {
  CopyEngine engine(contexts, 0);
  const cuda::Address memory = allocate(100);
  {
    const auto first = engine.start(at(memory), at(memory) + 50, 50);
  }
  const auto handles = control.open_handles(nullptr, 0);
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(engine.start(at(memory), at(memory) + 50, 50));
  EXPECT_EQ(control.open_handles(nullptr, 0), handles);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(CopyEngineTest, AsksOneEventForSeveralShortCopies) {
  constexpr std::size_t together = 1000;
  const cuda::Address memory = allocate(10'000);
  const auto calls_of = [&](std::size_t bytes_together) {
    CopyEngine engine(contexts, 0, 1, bytes_together);
    const auto warm = engine.start(at(memory), at(memory) + 500, 50);
    EXPECT_TRUE(warm && warm->wait());
    const auto before = control.calls();
    {
      std::vector<PendingCopy> copies;
      for (int i = 0; i < 10; ++i)
        copies.push_back(*engine.start(at(memory) + 100 * i, at(memory) + 5000, 100));
      EXPECT_TRUE(copies.back().wait());
      for (const PendingCopy& copy : copies)
        EXPECT_EQ(copy.is_done(), true);
    }
    return control.calls() - before;
  };
  // To record an event and to ask it.
  EXPECT_LE(calls_of(together) + 10, calls_of(0));
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(CopyEngineTest, StartsSeveralByOneCallWhereTheDriverHasIt) {
  const cuda::Address memory = allocate(10'000);
  std::vector<CopyPiece> pieces;
  for (int i = 0; i < 8; ++i)
    pieces.push_back({at(memory) + 500 * i, at(memory) + 5000 + 500 * i, 400});
  const auto calls_of = [&](const cuda::Functions& driver) {
    cuda::PrimaryContexts contexts_of_it(driver);
    CopyEngine engine(contexts_of_it, 0);
    const auto warm = engine.start(at(memory), at(memory) + 500, 50);
    EXPECT_TRUE(warm && warm->wait());
    EXPECT_EQ(functions.fill(memory, 1, 5000), Status::success);
    EXPECT_EQ(functions.fill(memory + 5000, 2, 5000), Status::success);
    const auto before = control.calls();
    const auto copy = engine.start_together(pieces);
    EXPECT_TRUE(copy) << copy.error().text();
    EXPECT_EQ(engine.under_way(), 1);
    const PendingCopy another = copy->another();
    EXPECT_TRUE(copy->wait());
    const auto calls = control.calls() - before;
    EXPECT_EQ(another.is_done(), true);
    EXPECT_EQ(engine.under_way(), 0);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_THAT(read(memory + 500 * i, 400), Each(2));
      EXPECT_THAT(read(memory + 500 * i + 400, 100), Each(1));
    }
    return calls;
  };
  cuda::Functions older = functions;
  older.copy_batch = nullptr;
  EXPECT_LE(calls_of(functions) + pieces.size() - 1, calls_of(older));
  CopyEngine engine(contexts, 0);
  pieces.back().bytes = 10'000;
  const auto beyond = engine.start_together(pieces);
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().text(), HasSubstr("copy 12800 bytes between GPUs"));
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(CopyEngineTest, DoesNotKeepAShortCopyWaitingForALongOneBehindIt) {
  CopyEngine engine(contexts, 0, 1, 1000);
  const cuda::Address memory = allocate(1'000'000);
  {
    const auto first = engine.start(at(memory), at(memory) + 500, 50);
    ASSERT_TRUE(first);
    const Fault slow("MEGABYTES_PER_SECOND", "1", "0");
    const auto second = engine.start(at(memory), at(memory) + 500'000, 400'000);
    ASSERT_TRUE(second);
    EXPECT_TRUE(first->wait());
    EXPECT_EQ(second->is_done(), false) << "it takes 0.4 s";
    EXPECT_NE(second->stream(), nullptr);
    EXPECT_EQ(first->stream(), nullptr);
  }
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(CopyEngineTest, LaterCopiesOfAStreamAreDoneNoSooner) {
  CopyEngine engine(contexts, 0, 1, 1000);
  const cuda::Address memory = allocate(10'000);
  std::vector<PendingCopy> copies;
  {
    const Fault slow("MEGABYTES_PER_SECOND", "1", "0");
    for (int i = 0; i < 40; ++i)
      copies.push_back(*engine.start(at(memory) + 100 * i, at(memory) + 5000, 90));
    std::size_t done = 0;
    while (done < copies.size()) {
      const bool last = copies.back().is_done().value_or(false);
      const bool next = copies[done].is_done().value_or(false);
      EXPECT_TRUE(next || !last);
      if (next) ++done;
    }
  }
  copies.clear();
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(CopyEngineTest, SaysWhyItCannot) {
  CopyEngine engine(contexts, 0);
  const cuda::Address memory = allocate(100);
  const auto beyond = engine.start(at(memory), at(memory) + 50, 51);
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().text(), HasSubstr("copy 51 bytes by GPU 0"));
  const auto copy = engine.start(at(memory), at(memory) + 50, 50);
  ASSERT_TRUE(copy);
  {
    const Fault sticky("STICKY", "719", "0");
    const auto done = copy->is_done();
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().text(), HasSubstr("GPU work of the program has failed"));
  }
  EXPECT_TRUE(copy->wait());
  EXPECT_EQ(functions.free(memory), Status::success);
}

}  // namespace
}  // namespace isthmus::testing_cuda::copy_engine_test
