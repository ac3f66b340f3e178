#include "gpu/memory/classify.hpp"

#include <sys/mman.h>
#include <sys/wait.h>

#include "cuda_fixture.hpp"
#include "roles.hpp"
#include "vmm_memory.hpp"

namespace isthmus::testing_cuda::classify_test {
namespace {

using testing::HasSubstr;

/// Initialised data of the program.
int some_data = 7;

class ClassifierTest : public CudaTest {
 protected:
  ClassifierTest() { EXPECT_NE(driver.find(), nullptr); }
  Buffer classify(cuda::Address address, std::size_t bytes = 8) {
    const auto buffer = classifier.classify(reinterpret_cast<void*>(address), bytes);
    EXPECT_TRUE(buffer) << buffer.error().text();
    return buffer ? *buffer : Buffer{};
  }
  Buffer classify(const void* address, std::size_t bytes = 8) { return classify(address_of(address), bytes); }
  /// Calls of the driver that a classification makes.
  template <class Address>
  unsigned long long calls_for(Address address, std::size_t bytes = 8) {
    const auto before = control.calls();
    classify(address, bytes);
    return control.calls() - before;
  }

  CudaDriver driver;
  Classifier classifier{driver};
};

TEST_F(ClassifierTest, AsksNobodyAboutSmallBuffersOnStackHeapAndInData) {
#ifndef ISTHMUS_SANITIZED
  // Sanitizers have stacks and heaps of their own.
  const int on_stack = 0;
  const std::vector<char> on_heap(100);
  EXPECT_EQ(calls_for(on_heap.data()), 0U);
  EXPECT_EQ(calls_for(&on_stack), 0U);
#endif
  EXPECT_EQ(calls_for(&some_data), 0U);
  EXPECT_EQ(classify(&some_data).kind, MemoryKind::pageable);
  EXPECT_EQ(calls_for(&some_data, 1U << 20U), 1U) << "a large buffer may be registered";
}

TEST_F(ClassifierTest, AsksAboutMemoryThatAnyoneMayHaveMapped) {
  void* mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(calls_for(mapped), 1U);
  EXPECT_EQ(classify(mapped).kind, MemoryKind::pageable);
  EXPECT_EQ(functions.host_register(mapped, 4096, 0), Status::success);
  const Buffer buffer = classify(static_cast<char*>(mapped) + 100);
  EXPECT_EQ(buffer.kind, MemoryKind::pinned);
  EXPECT_EQ(buffer.base, mapped);
  EXPECT_EQ(buffer.offset(), 100U);
  EXPECT_TRUE(buffer.is_host_readable());
  EXPECT_EQ(functions.host_unregister(mapped), Status::success);
  EXPECT_EQ(classify(mapped).kind, MemoryKind::pageable);
  ::munmap(mapped, 4096);
}

TEST_F(ClassifierTest, KnowsDeviceMemoryAndAsksOnceForWhatDoesNotChange) {
  const cuda::Address memory = allocate(10000);
  EXPECT_GT(calls_for(memory + 16), 1U);
  EXPECT_EQ(calls_for(memory + 32), 1U);
  const Buffer buffer = classify(memory + 16, 100);
  EXPECT_EQ(buffer.kind, MemoryKind::device);
  EXPECT_EQ(buffer.device, 0);
  EXPECT_EQ(buffer.context, context);
  EXPECT_EQ(address_of(buffer.base), memory);
  EXPECT_EQ(buffer.room, 10000U);
  EXPECT_TRUE(buffer.is_whole());
  EXPECT_FALSE(buffer.is_host_readable());
  EXPECT_FALSE(classify(memory, 10001).is_whole());
  EXPECT_FALSE(classify(memory + 9999, 2).is_whole());
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(ClassifierTest, TellsAnAllocationFromTheNextAtTheSameAddress) {
  cuda::Address memory = allocate(5000);
  const Buffer first = classify(memory);
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_FALSE(classifier.classify(reinterpret_cast<void*>(memory), 8)) << "nothing is there";
  const cuda::Address again = allocate(3000);
  ASSERT_EQ(again, memory) << "the driver uses addresses again, or this proves nothing";
  const Buffer second = classify(memory);
  EXPECT_NE(second.allocation, first.allocation);
  EXPECT_EQ(second.room, 3000U);
  EXPECT_EQ(functions.free(again), Status::success);
  // A different kind of memory at the same address.
  ASSERT_EQ(functions.managed_allocate(&memory, 4096, cuda::attach_global), Status::success);
  ASSERT_EQ(memory, again);
  EXPECT_EQ(classify(memory).kind, MemoryKind::managed);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(ClassifierTest, KnowsVmmAndPoolMemory) {
  {
    const VmmMemory memory(functions, 0);
    const Buffer buffer = classify(memory.address + 5);
    EXPECT_EQ(buffer.kind, MemoryKind::vmm);
    EXPECT_EQ(address_of(buffer.base), memory.address);
    EXPECT_EQ(buffer.room, memory.bytes);
    EXPECT_NE(buffer.allocation, 0U);
  }
  cuda::Pool pool = nullptr;
  ASSERT_EQ(functions.device_default_pool(&pool, 1), Status::success);
  cuda::Address memory = 0;
  ASSERT_EQ(functions.pool_allocate(&memory, 300, pool, nullptr), Status::success);
  const Buffer buffer = classify(memory + 299, 1);
  EXPECT_EQ(buffer.kind, MemoryKind::pool);
  EXPECT_EQ(buffer.pool, pool);
  EXPECT_EQ(buffer.device, 1);
  EXPECT_EQ(buffer.room, 300U);
  EXPECT_EQ(functions.pool_free(memory, nullptr), Status::success);
  EXPECT_EQ(functions.context_synchronize(), Status::success);
}

TEST_F(ClassifierTest, TellsPhysicalMemoryFromTheNextAtTheSameMapping) {
  VmmMemory memory(functions, 0);
  const Buffer first = classify(memory.address);
  memory.map_other();
  const Buffer second = classify(memory.address);
  EXPECT_EQ(second.base, first.base);
  EXPECT_NE(second.allocation, first.allocation);
}

TEST_F(ClassifierTest, FollowsThePagesOfManagedMemory) {
  cuda::Address memory = 0;
  ASSERT_EQ(functions.managed_allocate(&memory, 65536, cuda::attach_global), Status::success);
  EXPECT_EQ(classify(memory, 65536).pages, PageLocation::unknown) << "not touched yet";
  auto* bytes = reinterpret_cast<char*>(memory);
  std::fill_n(bytes, 65536, 1);
  EXPECT_EQ(classify(memory, 65536).kind, MemoryKind::managed);
  EXPECT_EQ(classify(memory, 65536).pages, PageLocation::host);
  EXPECT_EQ(functions.managed_prefetch(memory, 65536, {cuda::LocationType::device, 1}, 0, nullptr),
            Status::success);
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  const Buffer moved = classify(memory, 65536);
  EXPECT_EQ(moved.pages, PageLocation::device);
  EXPECT_EQ(moved.device, 1);
  bytes[0] = 2;
  EXPECT_EQ(classify(memory, 65536).pages, PageLocation::unknown) << "here and there";
  EXPECT_EQ(classify(memory, 4096).pages, PageLocation::host);
  EXPECT_EQ(functions.managed_prefetch(memory, 65536, {cuda::LocationType::host, 0}, 0, nullptr),
            Status::success);
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  EXPECT_EQ(classify(memory, 65536).pages, PageLocation::host);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(ClassifierTest, SaysThatTheProgramsOwnGpuWorkHasFailed) {
  const cuda::Address memory = allocate(100);
  void* mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  {
    const Fault sticky("STICKY", "700", "0");
    const auto buffer = classifier.classify(reinterpret_cast<void*>(memory), 8);
    ASSERT_FALSE(buffer);
    EXPECT_THAT(buffer.error().text(), HasSubstr("GPU work of the program has failed before"));
    EXPECT_THAT(buffer.error().text(), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
    EXPECT_EQ(classify(mapped).kind, MemoryKind::pageable) << "host messages go on";
  }
  EXPECT_EQ(functions.free(memory), Status::success);
  ::munmap(mapped, 4096);
}

TEST_F(ClassifierTest, TakesNothingForPageable) {
  EXPECT_EQ(calls_for(cuda::Address{0}, 0), 0U);
  EXPECT_EQ(classify(cuda::Address{0}, 0).kind, MemoryKind::pageable);
}

TEST_F(ClassifierTest, SaysThatThereIsNoMemory) {
  const auto expect_none = [&](cuda::Address address) {
    const auto buffer = classifier.classify(reinterpret_cast<void*>(address), 8);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().error_class(), ErrorClass::buffer);
    EXPECT_THAT(buffer.error().text(), HasSubstr("memory of a GPU that has been freed"));
  };
  const cuda::Address freed = allocate(100'000);
  EXPECT_EQ(classify(freed).kind, MemoryKind::device);
  EXPECT_EQ(functions.free(freed), Status::success);
  expect_none(freed);
  expect_none(freed + 50'001);
  cuda::Address reserved = 0;
  EXPECT_EQ(functions.address_reserve(&reserved, std::size_t{2} << 20U, 0, 0, 0), Status::success);
  expect_none(reserved);
  EXPECT_EQ(functions.address_free(reserved, std::size_t{2} << 20U), Status::success);
  void* guarded = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect_none(address_of(guarded));
  EXPECT_EQ(::mprotect(guarded, 4096, PROT_READ), 0);
  EXPECT_EQ(classify(guarded).kind, MemoryKind::pageable);
  EXPECT_EQ(classify(static_cast<char*>(guarded) + 4095, 1).kind, MemoryKind::pageable);
  ::munmap(guarded, 4096);
  expect_none(address_of(guarded));
}

TEST_F(ClassifierTest, TakesAllForPageableInAChildOfFork) {
  void* mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto buffer = classifier.classify(mapped, 8);
    ::_exit(buffer && buffer->kind == MemoryKind::pageable ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::munmap(mapped, 4096);
}

}  // namespace
}  // namespace isthmus::testing_cuda::classify_test
