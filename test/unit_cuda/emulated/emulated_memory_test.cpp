// What the emulated driver does with memory, as the real one.
#include <sys/uio.h>
#include <unistd.h>

#include <numeric>

#include "cuda_fixture.hpp"
#include "vmm_memory.hpp"

// Functions of the driver that the library does not use.
#include "entry.hpp"

namespace isthmus::testing_cuda::emulated_memory_test {
namespace {

using cuda::PointerAttribute;
using testing::Each;

/// Whether a load by this process would succeed.
bool is_readable(cuda::Address address) {
  char byte = 0;
  const iovec here{&byte, 1};
  const iovec there{reinterpret_cast<void*>(address), 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
}

class EmulatedMemory : public CudaTest {
 protected:
  template <class T>
  T ask(PointerAttribute attribute, cuda::Address address) const {
    T value{};
    EXPECT_EQ(functions.pointer_attribute(&value, attribute, address), Status::success);
    return value;
  }
};

TEST_F(EmulatedMemory, OnlyTheCopyEngineReachesDeviceMemory) {
  const cuda::Address memory = allocate(10000);
  EXPECT_FALSE(is_readable(memory));
  EXPECT_FALSE(is_readable(memory + 9999));
  std::vector<unsigned char> bytes(10000);
  std::iota(bytes.begin(), bytes.end(), 0);
  EXPECT_EQ(functions.copy(memory, address_of(bytes.data()), bytes.size()), Status::success);
  EXPECT_EQ(read(memory, bytes.size()), bytes);
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_FALSE(is_readable(memory));
}

TEST_F(EmulatedMemory, RefusesCopiesPastTheEndAndOfFreedMemory) {
  const cuda::Address memory = allocate(100);
  std::vector<unsigned char> bytes(200);
  EXPECT_EQ(functions.copy(memory, address_of(bytes.data()), 101), Status::invalid_value);
  EXPECT_EQ(functions.copy(memory + 50, address_of(bytes.data()), 51), Status::invalid_value);
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_EQ(functions.copy(memory, address_of(bytes.data()), 1), Status::invalid_value);
  EXPECT_EQ(functions.free(memory), Status::invalid_value);
  EXPECT_EQ(functions.free(0), Status::success);
}

TEST_F(EmulatedMemory, LeavesAGapBehindEachAllocation) {
  std::uint64_t id = 0;
  const cuda::Address first = allocate(2U << 20U);
  const cuda::Address second = allocate(2U << 20U);
  EXPECT_EQ(functions.pointer_attribute(&id, PointerAttribute::buffer_id, first + (2U << 20U)),
            Status::invalid_value);
  EXPECT_EQ(functions.free(second), Status::success);
  EXPECT_EQ(functions.free(first), Status::success);
  const VmmMemory mapped(functions, 0);
  const VmmMemory behind(functions, 0);
  EXPECT_EQ(functions.pointer_attribute(&id, PointerAttribute::buffer_id, mapped.address + mapped.bytes),
            Status::invalid_value);
}

TEST_F(EmulatedMemory, UsesAddressesAgainAndIdsNever) {
  const cuda::Address first = allocate(5000);
  const auto id = ask<std::uint64_t>(PointerAttribute::buffer_id, first);
  EXPECT_EQ(functions.free(first), Status::success);
  const cuda::Address second = allocate(5000);
  EXPECT_EQ(second, first);
  EXPECT_NE(ask<std::uint64_t>(PointerAttribute::buffer_id, second), id);
  EXPECT_EQ(functions.free(second), Status::success);
}

TEST_F(EmulatedMemory, TellsWhatAPointerIs) {
  const cuda::Address memory = allocate(4096);
  EXPECT_EQ(ask<int>(PointerAttribute::memory_type, memory + 7), 2);
  EXPECT_EQ(ask<int>(PointerAttribute::device_ordinal, memory), 0);
  EXPECT_EQ(ask<int>(PointerAttribute::is_legacy_ipc_capable, memory), 1);
  EXPECT_EQ(ask<cuda::Address>(PointerAttribute::range_start, memory + 7), memory);
  EXPECT_EQ(ask<std::size_t>(PointerAttribute::range_size, memory + 7), 4096U);
  EXPECT_EQ(ask<cuda::Context>(PointerAttribute::context, memory), context);
  cuda::Address base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(functions.address_range(&base, &bytes, memory + 4095), Status::success);
  EXPECT_EQ(base, memory);
  EXPECT_EQ(bytes, 4096U);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(EmulatedMemory, KnowsNothingOfHostPointers) {
  int value = 5;
  EXPECT_EQ(functions.pointer_attribute(&value, PointerAttribute::memory_type, address_of(&value)),
            Status::invalid_value);
  int type = 5;
  int device = 5;
  std::uint64_t id = 5;
  std::array attributes{PointerAttribute::memory_type, PointerAttribute::device_ordinal,
                        PointerAttribute::buffer_id};
  std::array<void*, 3> values{&type, &device, &id};
  EXPECT_EQ(functions.pointer_attributes(3, attributes.data(), values.data(), address_of(&value)),
            Status::success);
  EXPECT_EQ(type, 0);
  EXPECT_EQ(device, cuda::no_device);
  EXPECT_EQ(id, 0U);
}

TEST_F(EmulatedMemory, RunsOutWhereItIsTold) {
  const Fault fault("MEMORY", "100000", "1073741824");
  const cuda::Address memory = allocate(60000);
  cuda::Address more = 0;
  EXPECT_EQ(functions.allocate(&more, 60000), Status::out_of_memory);
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(functions.memory_info(&free, &total), Status::success);
  EXPECT_EQ(free, 40000U);
  EXPECT_EQ(total, 100000U);
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_EQ(functions.allocate(&more, 60000), Status::success);
  EXPECT_EQ(functions.free(more), Status::success);
}

TEST_F(EmulatedMemory, PinsAndRegistersHostMemory) {
  void* pinned = nullptr;
  ASSERT_EQ(functions.host_allocate(&pinned, 1000, 0), Status::success);
  static_cast<char*>(pinned)[999] = 1;
  EXPECT_EQ(ask<int>(PointerAttribute::memory_type, address_of(pinned)), 1);
  EXPECT_EQ(ask<int>(PointerAttribute::is_legacy_ipc_capable, address_of(pinned)), 0);
  std::vector<char> own(5000);
  EXPECT_EQ(functions.host_register(own.data(), own.size(), 0), Status::success);
  EXPECT_EQ(functions.host_register(own.data() + 100, 10, 0), Status::host_memory_already_registered);
  EXPECT_EQ(ask<int>(PointerAttribute::memory_type, address_of(own.data() + 100)), 1);
  EXPECT_EQ(functions.host_unregister(own.data()), Status::success);
  EXPECT_EQ(functions.host_unregister(own.data()), Status::host_memory_not_registered);
  EXPECT_EQ(functions.host_free(pinned), Status::success);
}

TEST_F(EmulatedMemory, MapsPhysicalMemoryWhereAccessIsGiven) {
  const cuda::AllocationProperties properties{.handle_types = cuda::HandleType::posix_descriptor,
                                              .location = {cuda::LocationType::device, 0}};
  std::size_t granule = 0;
  ASSERT_EQ(functions.granularity(&granule, &properties, cuda::GranularityKind::minimum), Status::success);
  cuda::Physical physical = 0;
  EXPECT_EQ(functions.physical_create(&physical, granule + 1, &properties, 0), Status::invalid_value);
  ASSERT_EQ(functions.physical_create(&physical, granule, &properties, 0), Status::success);
  cuda::Address address = 0;
  ASSERT_EQ(functions.address_reserve(&address, 2 * granule, 0, 0, 0), Status::success);
  EXPECT_EQ(address % granule, 0U);
  ASSERT_EQ(functions.map(address, granule, 0, physical, 0), Status::success);
  EXPECT_EQ(functions.fill(address, 7, granule), Status::invalid_value) << "without access";
  const cuda::Access access{{cuda::LocationType::device, 0}, cuda::AccessFlags::read_write};
  EXPECT_EQ(functions.set_access(address, granule, &access, 1), Status::success);
  EXPECT_EQ(functions.fill(address, 7, granule), Status::success);
  EXPECT_THAT(read(address + granule - 100, 100), Each(7));
  EXPECT_EQ(ask<int>(PointerAttribute::is_legacy_ipc_capable, address), 0);
  cuda::Physical again = 0;
  EXPECT_EQ(functions.physical_retain(&again, reinterpret_cast<void*>(address + 5)), Status::success);
  EXPECT_EQ(again, physical);
  EXPECT_EQ(functions.physical_release(again), Status::success);
  EXPECT_EQ(functions.physical_release(physical), Status::success);
  EXPECT_EQ(functions.address_free(address, 2 * granule), Status::invalid_value) << "still mapped";
  EXPECT_THAT(read(address, 100), Each(7)) << "a mapping keeps its memory";
  EXPECT_EQ(functions.unmap(address, granule), Status::success);
  EXPECT_EQ(functions.address_free(address, 2 * granule), Status::success);
}

TEST_F(EmulatedMemory, CutsPoolMemoryInTheOrderOfStreams) {
  cuda::Pool pool = nullptr;
  ASSERT_EQ(functions.device_default_pool(&pool, 0), Status::success);
  cuda::Stream stream = nullptr;
  ASSERT_EQ(functions.stream_create(&stream, cuda::stream_non_blocking), Status::success);
  cuda::Address memory = 0;
  ASSERT_EQ(functions.pool_allocate(&memory, 3000, pool, stream), Status::success);
  EXPECT_EQ(ask<cuda::Pool>(PointerAttribute::pool, memory), pool);
  EXPECT_EQ(functions.fill_async(memory, 9, 3000, stream), Status::success);
  EXPECT_EQ(functions.stream_synchronize(stream), Status::success);
  EXPECT_THAT(read(memory, 3000), Each(9));
  EXPECT_FALSE(is_readable(memory));
  EXPECT_EQ(functions.pool_free(memory, stream), Status::success);
  EXPECT_EQ(functions.stream_synchronize(stream), Status::success);
  EXPECT_EQ(functions.copy(memory, memory, 1), Status::invalid_value);
  int fd = -1;
  EXPECT_EQ(functions.pool_export(&fd, pool, cuda::HandleType::posix_descriptor, 0), Status::invalid_value);
  EXPECT_EQ(functions.stream_destroy(stream), Status::success);
}

TEST_F(EmulatedMemory, ManagedMemoryIsReadableAndRemembersItsPrefetches) {
  cuda::Address memory = 0;
  ASSERT_EQ(functions.managed_allocate(&memory, 16384, cuda::attach_global), Status::success);
  auto* bytes = reinterpret_cast<unsigned char*>(memory);
  bytes[5] = 3;
  EXPECT_EQ(read(memory + 5, 1)[0], 3);
  const auto prefetched_to = [&](std::size_t from, std::size_t count) {
    int location = 99;
    EXPECT_EQ(functions.range_attribute(&location, sizeof location,
                                        cuda::RangeAttribute::last_prefetch_location, memory + from, count),
              Status::success);
    return location;
  };
  EXPECT_EQ(prefetched_to(0, 16384), cuda::no_device);
  EXPECT_EQ(functions.managed_prefetch(memory, 8192, {cuda::LocationType::device, 1}, 0, nullptr),
            Status::success);
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  EXPECT_EQ(prefetched_to(0, 8192), 1);
  EXPECT_EQ(prefetched_to(0, 16384), cuda::no_device) << "two halves that differ";
  EXPECT_EQ(bytes[5], 3) << "pages come back with what was in them";
  EXPECT_EQ(functions.managed_prefetch(memory, 8192, {cuda::LocationType::host, 0}, 0, nullptr),
            Status::success);
  EXPECT_EQ(prefetched_to(0, 8192), cuda::host_device);
  EXPECT_EQ(ask<int>(PointerAttribute::is_managed, memory), 1);
  EXPECT_EQ(functions.free(memory), Status::success);
  EXPECT_FALSE(is_readable(memory));
}

TEST_F(EmulatedMemory, GoesWithItsContext) {
  // A context of its own beside the primary one.
  const auto create = reinterpret_cast<decltype(&emulated::cuCtxCreate_v2)>(symbol("cuCtxCreate_v2"));
  const auto destroy = reinterpret_cast<decltype(&emulated::cuCtxDestroy_v2)>(symbol("cuCtxDestroy_v2"));
  cuda::Context own = nullptr;
  ASSERT_EQ(create(&own, 0, 1), Status::success);
  const cuda::Address memory = allocate(1000);
  EXPECT_EQ(ask<cuda::Context>(PointerAttribute::context, memory), own);
  EXPECT_EQ(ask<int>(PointerAttribute::device_ordinal, memory), 1);
  EXPECT_EQ(destroy(own), Status::success);
  EXPECT_EQ(functions.free(memory), Status::invalid_value);
  EXPECT_EQ(functions.context_push(own), Status::success);
  cuda::Address none = 0;
  EXPECT_EQ(functions.allocate(&none, 10), Status::context_is_destroyed);
  EXPECT_EQ(functions.context_pop(&own), Status::success);
}

}  // namespace
}  // namespace isthmus::testing_cuda::emulated_memory_test
