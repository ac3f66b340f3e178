// memory/ on the driver of this machine: what the unit tests show against the emulated one.
#include "device_fixture.hpp"
#include "gpu/copy/engine.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "gpu/memory/vmm_allocation.hpp"
#include "vmm_memory.hpp"

namespace isthmus::testing_cuda {
namespace {

using testing::Each;
using testing::HasSubstr;

class DeviceMemory : public DeviceTest {};

constexpr std::array exported_kinds{MemoryKind::device, MemoryKind::vmm, MemoryKind::pool};

TEST_F(DeviceMemory, DescribesItsGpus) {
  for (const Gpu& gpu : gpus.gpus()) {
    std::printf("  GPU %d: %s, %s, PCI %s, NUMA node %d\n", gpu.ordinal, gpu.name.c_str(),
                to_string(gpu.uuid).c_str(), gpu.pci.c_str(), gpu.numa);
    for (const Gpu& other : gpus.gpus())
      if (gpu.ordinal != other.ordinal)
        std::printf("    to GPU %d: %s\n", other.ordinal,
                    std::string(name_of(gpus.link(gpu.ordinal, other.ordinal))).c_str());
  }
  EXPECT_FALSE(gpus.gpus().empty());
}

TEST_F(DeviceMemory, ClassifiesEveryKind) {
  const std::vector<char> large(1 << 20U);
  EXPECT_EQ(classify(address_of(large.data()), large.size()).kind, MemoryKind::pageable);

  void* pinned = nullptr;
  ASSERT_EQ(functions.host_allocate(&pinned, 4096, 0), Status::success);
  EXPECT_EQ(classify(address_of(pinned)).kind, MemoryKind::pinned);
  EXPECT_EQ(functions.host_free(pinned), Status::success);

  cuda::Address memory = 0;
  ASSERT_EQ(functions.allocate(&memory, 10000), Status::success);
  const Buffer device = classify(memory + 100, 50);
  EXPECT_EQ(device.kind, MemoryKind::device);
  EXPECT_TRUE(device.is_own);
  EXPECT_EQ(address_of(device.base), memory);
  EXPECT_EQ(device.room, 10000U);
  EXPECT_NE(device.allocation, 0U);
  EXPECT_EQ(functions.free(memory), Status::success);

  const VmmMemory vmm(functions, 0);
  const Buffer mapped = classify(vmm.address + 100, 50);
  EXPECT_EQ(mapped.kind, MemoryKind::vmm);
  EXPECT_EQ(address_of(mapped.base), vmm.address);
  EXPECT_EQ(mapped.room, vmm.bytes);
  EXPECT_NE(mapped.allocation, 0U);

  cuda::Pool pool = nullptr;
  ASSERT_EQ(functions.device_default_pool(&pool, 0), Status::success);
  ASSERT_EQ(functions.pool_allocate(&memory, 3000, pool, nullptr), Status::success);
  EXPECT_EQ(classify(memory).kind, MemoryKind::pool);
  EXPECT_EQ(classify(memory).pool, pool);
  EXPECT_EQ(functions.pool_free(memory, nullptr), Status::success);

  ASSERT_EQ(functions.managed_allocate(&memory, 65536, cuda::attach_global), Status::success);
  EXPECT_EQ(classify(memory).kind, MemoryKind::managed);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(DeviceMemory, TellsAnAllocationFromTheNextAtTheSameAddress) {
  cuda::Address memory = 0;
  ASSERT_EQ(functions.allocate(&memory, 4U << 20U), Status::success);
  const Buffer first = classify(memory);
  ASSERT_EQ(functions.free(memory), Status::success);
  cuda::Address again = 0;
  ASSERT_EQ(functions.allocate(&again, 4U << 20U), Status::success);
  EXPECT_NE(classify(again).allocation, first.allocation);
  EXPECT_EQ(functions.free(again), Status::success);
  if (again != memory) GTEST_SKIP() << "the driver gave another address";
}

TEST_F(DeviceMemory, TellsPhysicalMemoryFromTheNextAtTheSameMapping) {
  VmmMemory memory(functions, 0);
  const Buffer first = classify(memory.address);
  memory.map_other();
  EXPECT_NE(classify(memory.address).allocation, first.allocation);
}

TEST_F(DeviceMemory, FollowsThePagesOfManagedMemory) {
  constexpr std::size_t bytes = 4U << 20U;
  cuda::Address memory = 0;
  ASSERT_EQ(functions.managed_allocate(&memory, bytes, cuda::attach_global), Status::success);
  std::fill_n(reinterpret_cast<char*>(memory), bytes, 1);
  EXPECT_EQ(classify(memory, bytes).pages, PageLocation::host);
  EXPECT_EQ(functions.managed_prefetch(memory, bytes, {cuda::LocationType::device, 0}, 0, nullptr),
            Status::success);
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  EXPECT_EQ(classify(memory, bytes).pages, PageLocation::device);
  EXPECT_EQ(classify(memory, bytes).device, 0);
  EXPECT_EQ(functions.managed_prefetch(memory, bytes, {cuda::LocationType::host, 0}, 0, nullptr),
            Status::success);
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  EXPECT_EQ(classify(memory, bytes).pages, PageLocation::host);
  EXPECT_EQ(functions.managed_prefetch(memory, bytes, {cuda::LocationType::device, 0}, 0, nullptr),
            Status::success);
  EXPECT_EQ(functions.context_synchronize(), Status::success);
  std::fill_n(reinterpret_cast<char*>(memory), bytes, 2);
  EXPECT_EQ(classify(memory, bytes).pages, PageLocation::host)
      << "the last prefetch says device, the pages are here";
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(DeviceMemory, ReachesEveryKindOfMemoryOfAnotherProcess) {
  for (const MemoryKind kind : exported_kinds)
    for (const Gpu& local : gpus.gpus()) {
      Player exporter("exporter");
      UniqueFd descriptor;
      const Letter offer = wish(exporter, Wish::allocate, static_cast<std::uint64_t>(kind), &descriptor);
      ASSERT_EQ(offer.words(), "") << name_of(kind);
      const auto mapping = cache.open(offer.offer, local.ordinal, descriptor.get());
      ASSERT_TRUE(mapping) << name_of(kind) << ": " << mapping.error().text();
      wish(exporter, Wish::fill, 40);
      EXPECT_THAT(read((*mapping)->at(offer.offer), 8192), Each(40)) << name_of(kind);
      const Buffer opened = classify(address_of((*mapping)->base()));
      std::printf("  %s, opened by GPU %d: taken for %s%s\n", std::string(name_of(kind)).c_str(),
                  local.ordinal, std::string(name_of(opened.kind)).c_str(),
                  opened.is_own ? " of this process" : " of a peer");
      cache.forget(offer.offer.exporter);
      EXPECT_EQ(exporter.end(), 0);
    }
}

TEST_F(DeviceMemory, FollowsAnAllocationToTheNextAtItsAddress) {
  for (const MemoryKind kind : exported_kinds) {
    Player exporter("exporter");
    UniqueFd descriptor;
    const Letter first = wish(exporter, Wish::allocate, static_cast<std::uint64_t>(kind), &descriptor);
    ASSERT_TRUE(cache.open(first.offer, 0, descriptor.get())) << name_of(kind);
    wish(exporter, Wish::free);
    UniqueFd next_descriptor;
    const Letter second = wish(exporter, Wish::allocate_again, 0, &next_descriptor);
    std::printf("  %s: %s address again\n", std::string(name_of(kind)).c_str(),
                second.offer.base == first.offer.base ? "the same" : "another");
    EXPECT_EQ(cache.find(second.offer, 0), nullptr) << name_of(kind);
    const auto mapping = cache.open(second.offer, 0, next_descriptor.get());
    ASSERT_TRUE(mapping) << name_of(kind) << ": " << mapping.error().text();
    wish(exporter, Wish::fill, 41);
    EXPECT_THAT(read((*mapping)->at(second.offer), 8192), Each(41)) << name_of(kind);
    cache.forget(second.offer.exporter);
    EXPECT_EQ(exporter.end(), 0);
  }
}

TEST_F(DeviceMemory, OutlivesAnExporterThatIsKilled) {
  Player exporter("exporter");
  const Letter offer = wish(exporter, Wish::allocate, static_cast<std::uint64_t>(MemoryKind::device));
  const auto mapping = cache.open(offer.offer, 0, -1);
  ASSERT_TRUE(mapping) << mapping.error().text();
  exporter.kill();
  EXPECT_EQ(exporter.end(), 128 + SIGKILL);
  EXPECT_THAT(read((*mapping)->at(offer.offer), 8192), Each(1));
}

TEST_F(DeviceMemory, RefusesMoreThanThereIs) {
  Player exporter("exporter");
  const Letter offer = wish(exporter, Wish::allocate, static_cast<std::uint64_t>(MemoryKind::device));
  Export forged = offer.offer;
  forged.room *= 64;
  const auto mapping = cache.open(forged, 0, -1);
  ASSERT_FALSE(mapping);
  EXPECT_THAT(mapping.error().text(), HasSubstr("more GPU memory than"));
}

TEST_F(DeviceMemory, SharesEvents) {
  Player exporter("exporter");
  const Letter letter = wish(exporter, Wish::event);
  ASSERT_EQ(letter.number, 0U);
  cuda::Event event = nullptr;
  ASSERT_EQ(functions.ipc_open_event(&event, letter.event), Status::success);
  EXPECT_EQ(functions.event_query(event), Status::not_ready);
  wish(exporter, Wish::release);
  EXPECT_EQ(functions.event_synchronize(event), Status::success);
  EXPECT_EQ(functions.event_destroy(event), Status::success);
}

TEST_F(DeviceMemory, SaysWhyItCannotExport) {
  Exporter exporter(functions, self);
  const VmmMemory closed(functions, 0, cuda::HandleType::none);
  const auto offer = exporter.offer(classify(closed.address));
  ASSERT_FALSE(offer);
  EXPECT_THAT(offer.error().text(), HasSubstr("CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"));
  cuda::Pool pool = nullptr;
  ASSERT_EQ(functions.device_default_pool(&pool, 0), Status::success);
  cuda::Address memory = 0;
  ASSERT_EQ(functions.pool_allocate(&memory, 100, pool, nullptr), Status::success);
  const auto from_default = exporter.offer(classify(memory));
  ASSERT_FALSE(from_default);
  EXPECT_THAT(from_default.error().text(), HasSubstr("default pool"));
  EXPECT_EQ(functions.pool_free(memory, nullptr), Status::success);
}

TEST_F(DeviceMemory, CopiesOnStreamsOfItsOwn) {
  CopyEngine engine(contexts, 0);
  cuda::Address memory = 0;
  ASSERT_EQ(functions.allocate(&memory, 1 << 20U), Status::success);
  const std::vector<std::byte> bytes(1 << 20U, std::byte{7});
  cuda::Stream stream = nullptr;
  ASSERT_EQ(functions.stream_create(&stream, cuda::stream_default), Status::success);
  ASSERT_EQ(functions.stream_begin_capture(stream, cuda::CaptureMode::global), Status::success);
  {
    const auto copy = engine.start(reinterpret_cast<std::byte*>(memory), bytes.data(), bytes.size());
    ASSERT_TRUE(copy) << copy.error().text();
    while (!copy->is_done().value_or(true)) {
    }
  }
  cuda::Graph graph = nullptr;
  EXPECT_EQ(functions.stream_end_capture(stream, &graph), Status::success)
      << "a capture of the program's goes on";
  EXPECT_EQ(functions.graph_destroy(graph), Status::success);
  EXPECT_EQ(functions.stream_destroy(stream), Status::success);
  EXPECT_THAT(read(reinterpret_cast<void*>(memory), 8192), Each(7));
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(DeviceMemory, AllocatesForAnyPeer) {
  const auto allocation = VmmAllocation::make(contexts, gpus, 0, 5000);
  ASSERT_TRUE(allocation) << allocation.error().text();
  EXPECT_EQ(functions.fill(address_of((*allocation)->data()), 8, 5000), Status::success);
  EXPECT_THAT(read((*allocation)->data(), 5000), Each(8));
  EXPECT_EQ(classify(address_of((*allocation)->data())).kind, MemoryKind::vmm);
}

TEST_F(DeviceMemory, PinsStagingBuffers) {
  PinnedPool pool(contexts, 0, {});
  const auto buffer = pool.take(1 << 20U);
  ASSERT_TRUE(buffer) << buffer.error().text();
  EXPECT_EQ(buffer->size(), std::size_t{1} << 20U);
  EXPECT_EQ(classify(address_of(buffer->data()), buffer->size()).kind, MemoryKind::pinned);
}

/// As importer of another process of the same pid.
int open_offers(const Line& line) {
  const cuda::Functions& functions = cuda_functions();
  cuda::PrimaryContexts contexts(functions);
  const auto gpus = GpuList::read(functions);
  const auto self = ProcessIdentity::here();
  MappingCache cache(contexts, *gpus, *self, {});
  UniqueFd descriptor;
  while (const auto letter = line.receive(&descriptor)) {
    Letter answer;
    const auto mapping = cache.open(letter->offer, 0, descriptor.get());
    answer.code = mapping ? 1 : 0;
    if (!mapping) answer.say(mapping.error().text());
    if (!line.send(answer)) return 1;
  }
  return 0;
}
const Role importer_role("importer", open_offers);

TEST(DeviceEqualPids, KeepCudaMallocMemoryApartAlone) {
  if (!may_have_namespaces()) GTEST_SKIP() << "this user may not make pid namespaces";
  for (const MemoryKind kind : exported_kinds) {
    Player exporter("exporter", {.as_process_1 = true});
    Player importer("importer", {.as_process_1 = true});
    UniqueFd descriptor;
    const Letter offer = wish(exporter, Wish::allocate, static_cast<std::uint64_t>(kind), &descriptor);
    ASSERT_EQ(offer.offer.pid, 1U);
    const Letter answer = importer.ask(offer, nullptr, descriptor.get());
    if (kind == MemoryKind::device)
      EXPECT_THAT(answer.words(), HasSubstr("process id 1"));
    else
      EXPECT_EQ(answer.code, 1) << name_of(kind) << ": " << answer.words();
    EXPECT_EQ(importer.end(), 0);
    EXPECT_EQ(exporter.end(), 0);
  }
}

}  // namespace
}  // namespace isthmus::testing_cuda
