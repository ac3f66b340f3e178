// GPU memory of one process, reached by another.
#include "gpu/memory/mapping.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "cuda_fixture.hpp"
#include "exporter_role.hpp"
#include "gpu/memory/classify.hpp"
#include "gpu/memory/mapping_cache.hpp"
#include "vmm_memory.hpp"

namespace isthmus::testing_cuda::mapping_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr std::array exported_kinds{MemoryKind::device, MemoryKind::vmm, MemoryKind::pool};

std::uint64_t number(MemoryKind kind) {
  return static_cast<std::uint64_t>(kind);
}

class MappingTest : public CudaTest {
 protected:
  MappingTest() : gpus(*GpuList::read(functions)), self(*ProcessIdentity::here()) {}

  cuda::PrimaryContexts contexts{functions};
  const GpuList gpus;
  const ProcessIdentity self;
  MappingCache cache{contexts, gpus, self, {}};
};

TEST_F(MappingTest, ReachesEveryKindOfMemoryOfAnotherProcess) {
  for (const MemoryKind kind : exported_kinds) {
    Player exporter("exporter");
    UniqueFd descriptor;
    const Letter offer = wish(exporter, Wish::allocate, number(kind), &descriptor);
    ASSERT_EQ(offer.words(), "") << name_of(kind);
    EXPECT_EQ(offer.offer.has_descriptor(), static_cast<bool>(descriptor)) << name_of(kind);
    for (const cuda::Device local : {0, 1}) {
      EXPECT_EQ(cache.find(offer.offer, local), nullptr);
      const auto mapping = cache.open(offer.offer, local, descriptor.get());
      ASSERT_TRUE(mapping) << name_of(kind) << ": " << mapping.error().text();
      EXPECT_EQ(cache.find(offer.offer, local), *mapping);
      std::byte* buffer = (*mapping)->at(offer.offer);
      EXPECT_EQ(buffer, (*mapping)->base() + exported_offset);
      wish(exporter, Wish::fill, 40);
      EXPECT_THAT(read(address_of(buffer), 8192), Each(40)) << name_of(kind);
    }
    cache.forget(offer.offer.exporter);
    EXPECT_EQ(cache.size(), 0U);
    EXPECT_EQ(exporter.end(), 0) << name_of(kind);
  }
}

TEST_F(MappingTest, FollowsAnAllocationToTheNextAtItsAddress) {
  for (const MemoryKind kind : exported_kinds) {
    Player exporter("exporter");
    UniqueFd descriptor;
    const Letter first = wish(exporter, Wish::allocate, number(kind), &descriptor);
    ASSERT_TRUE(cache.open(first.offer, 0, descriptor.get())) << name_of(kind);
    wish(exporter, Wish::free);
    UniqueFd next_descriptor;
    const Letter second = wish(exporter, Wish::allocate_again, 0, &next_descriptor);
    ASSERT_EQ(second.offer.base, first.offer.base) << "or this proves nothing";
    EXPECT_EQ(cache.find(second.offer, 0), nullptr) << name_of(kind);
    const auto mapping = cache.open(second.offer, 0, next_descriptor.get());
    ASSERT_TRUE(mapping) << name_of(kind) << ": " << mapping.error().text();
    EXPECT_EQ(cache.size(), 1U) << "the stale one is closed";
    wish(exporter, Wish::fill, 41);
    EXPECT_THAT(read(address_of((*mapping)->at(second.offer)), 8192), Each(41)) << name_of(kind);
    cache.forget(second.offer.exporter, second.offer.allocation);
    cache.forget(second.offer.exporter);
    EXPECT_EQ(exporter.end(), 0);
  }
}

TEST_F(MappingTest, RefusesMemoryThatIsFreed) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pool}) {
    Player exporter("exporter");
    UniqueFd descriptor;
    const Letter offer = wish(exporter, Wish::allocate, number(kind), &descriptor);
    wish(exporter, Wish::free);
    const auto mapping = cache.open(offer.offer, 0, descriptor.get());
    ASSERT_FALSE(mapping) << name_of(kind);
    EXPECT_THAT(mapping.error().text(), HasSubstr("CUDA_ERROR_INVALID_VALUE"));
    EXPECT_EQ(exporter.end(), 0);
  }
}

TEST_F(MappingTest, OutlivesAnExporterThatIsKilled) {
  Player exporter("exporter");
  const Letter offer = wish(exporter, Wish::allocate, number(MemoryKind::device));
  const auto mapping = cache.open(offer.offer, 0, -1);
  ASSERT_TRUE(mapping) << mapping.error().text();
  exporter.kill();
  EXPECT_EQ(exporter.end(), 128 + SIGKILL);
  EXPECT_THAT(read(address_of((*mapping)->at(offer.offer)), 8192), Each(1));
}

TEST_F(MappingTest, KeepsWhatIsInUseAndDropsTheLeastUsed) {
  MappingCache small(contexts, gpus, self, {.mappings = 2});
  std::vector<std::unique_ptr<Player>> exporters;
  std::vector<Letter> offers;
  std::vector<std::shared_ptr<const Mapping>> in_use;
  for (int i = 0; i < 3; ++i) {
    exporters.push_back(std::make_unique<Player>("exporter"));
    offers.push_back(wish(*exporters.back(), Wish::allocate, number(MemoryKind::device)));
  }
  const auto open = [&](int i) {
    const auto mapping = small.open(offers[i].offer, 0, -1);
    EXPECT_TRUE(mapping);
    return *mapping;
  };
  in_use.push_back(open(0));
  open(1);
  EXPECT_NE(small.find(offers[0].offer, 0), nullptr);
  open(2);
  EXPECT_EQ(small.size(), 2U);
  EXPECT_EQ(small.find(offers[1].offer, 0), nullptr) << "used before all others";
  open(1);
  open(2);
  EXPECT_EQ(small.find(offers[0].offer, 0), nullptr);
  EXPECT_THAT(read(address_of(in_use[0]->base()), 100), Each(1)) << "its user still has it";
  EXPECT_EQ(small.find(offers[1].offer, 1), nullptr) << "for another device it is another";
}

TEST_F(MappingTest, BelievesNothingOfWhatAPeerSays) {
  Player exporter("exporter");
  const Letter offer = wish(exporter, Wish::allocate, number(MemoryKind::device));
  const auto refused = [&](auto change, const char* why) {
    Export forged = offer.offer;
    change(forged);
    const auto mapping = cache.open(forged, 0, -1);
    ASSERT_FALSE(mapping) << why;
    EXPECT_THAT(mapping.error().text(), HasSubstr(why));
  };
  refused([](Export& e) { e.kind = static_cast<ExportKind>(9); }, "kind");
  refused([](Export& e) { e.kind = static_cast<ExportKind>(0); }, "kind");
  refused([](Export& e) { e.offset = e.room; }, "outside");
  refused([](Export& e) { e.offset = ~std::uint64_t{0}; }, "outside");
  refused([](Export& e) { e.bytes = e.room + 1; }, "outside");
  refused([](Export& e) { e.room = e.bytes = ~std::uint64_t{0}; }, "outside");
  refused([](Export& e) { e.room *= 2; }, "more GPU memory than");
  refused([](Export& e) { e.exporter = 0; }, "who it is");
  refused([](Export& e) { e.handle.fill(0xff); }, "CUDA driver refuses");
  refused([](Export& e) { e.kind = ExportKind::vmm; }, "descriptor has not come");
  refused([](Export& e) { e.kind = ExportKind::pool; }, "descriptor has not come");
  // A mapping that is open is no licence for a larger piece of it.
  const auto mapping = cache.open(offer.offer, 0, -1);
  ASSERT_TRUE(mapping);
  Export larger = offer.offer;
  larger.bytes = exported_bytes;
  EXPECT_EQ((*mapping)->at(larger), nullptr);
  EXPECT_EQ(cache.find(larger, 0), nullptr);
}

TEST_F(MappingTest, DoesNotBelieveAnotherSizeOfWhatIsOpen) {
  for (const MemoryKind kind : exported_kinds) {
    Player exporter("exporter");
    UniqueFd descriptor;
    const Letter offer = wish(exporter, Wish::allocate, number(kind), &descriptor);
    const auto mapping = cache.open(offer.offer, 0, descriptor.get());
    ASSERT_TRUE(mapping) << name_of(kind) << ": " << mapping.error().text();
    Export larger = offer.offer;
    larger.room *= 1024;
    // Its piece is one that there is: whoever goes by the size would go beyond later.
    EXPECT_EQ(cache.find(larger, 0), nullptr) << name_of(kind);
    EXPECT_FALSE(cache.open(larger, 0, descriptor.get())) << name_of(kind);
    // A piece that is within what it is said to have, and beyond what there is.
    Export beyond = larger;
    beyond.offset = offer.offer.room;
    beyond.bytes = 1;
    EXPECT_EQ(cache.find(beyond, 0), nullptr) << name_of(kind);
    EXPECT_FALSE(cache.open(beyond, 0, descriptor.get())) << name_of(kind);
    EXPECT_EQ(cache.find(offer.offer, 0), *mapping) << name_of(kind);
    cache.forget(offer.offer.exporter);
    EXPECT_EQ(exporter.end(), 0) << name_of(kind);
  }
}

TEST_F(MappingTest, RefusesADescriptorOfAnotherKind) {
  Player exporter("exporter");
  UniqueFd descriptor;
  const Letter offer = wish(exporter, Wish::allocate, number(MemoryKind::vmm), &descriptor);
  Export forged = offer.offer;
  forged.kind = ExportKind::pool;
  const auto mapping = cache.open(forged, 0, descriptor.get());
  ASSERT_FALSE(mapping);
  EXPECT_THAT(mapping.error().text(), HasSubstr("a peer's memory pool"));
}

/// As of a peer that names its standard output as memory.
TEST_F(MappingTest, RefusesADescriptorOfAnyFile) {
  Player exporter("exporter");
  for (const MemoryKind kind : {MemoryKind::vmm, MemoryKind::pool}) {
    const Letter offer = wish(exporter, Wish::allocate, number(kind));
    for (const off_t bytes : {0, 4095, 4096, 5001, 65'537}) {
      const UniqueFd file(::memfd_create("no memory of a GPU", MFD_CLOEXEC));
      ASSERT_TRUE(file && ::ftruncate(file.get(), bytes) == 0);
      EXPECT_FALSE(cache.open(offer.offer, 0, file.get())) << name_of(kind) << ", " << bytes;
    }
  }
}

TEST_F(MappingTest, NamesTheMissingPeerAccess) {
  const Fault fault("REFUSE", "peer", "");
  const GpuList without(*GpuList::read(functions));
  MappingCache local(contexts, without, self, {});
  for (const MemoryKind kind : exported_kinds) {
    Player exporter("exporter");
    UniqueFd descriptor;
    const Letter offer = wish(exporter, Wish::allocate, number(kind), &descriptor);
    const auto mapping = local.open(offer.offer, 1, descriptor.get());
    ASSERT_FALSE(mapping) << name_of(kind);
    EXPECT_THAT(mapping.error().text(), HasSubstr("GPU 1 has no peer access to GPU 0")) << name_of(kind);
    EXPECT_TRUE(local.open(offer.offer, 0, descriptor.get())) << "on the same GPU it works";
    local.forget(offer.offer.exporter);
  }
}

TEST_F(MappingTest, OpensMemoryOfAGpuThatItDoesNotSee) {
  Player exporter("exporter", {.settings = {"EMULATED_CUDA_DEVICES=3", "CUDA_VISIBLE_DEVICES=2"}});
  const Letter offer = wish(exporter, Wish::allocate, number(MemoryKind::device));
  EXPECT_EQ(gpus.find(offer.offer.device), std::nullopt);
  const auto mapping = cache.open(offer.offer, 0, -1);
  ASSERT_TRUE(mapping) << mapping.error().text();
  EXPECT_THAT(read(address_of((*mapping)->at(offer.offer)), 100), Each(1));
}

TEST_F(MappingTest, IsRefusedForMemoryOfTheProcessItself) {
  const cuda::Address memory = allocate(100);
  cuda::IpcMemory handle;
  ASSERT_EQ(functions.ipc_get_memory(&handle, memory), Status::success);
  cuda::Address address = 0;
  EXPECT_EQ(functions.ipc_open_memory(&address, handle, cuda::ipc_lazy_peer_access), Status::invalid_context);
  cuda::Event event = nullptr;
  cuda::Event opened = nullptr;
  cuda::IpcEvent event_handle;
  ASSERT_EQ(functions.event_create(&event, cuda::event_interprocess | cuda::event_disable_timing),
            Status::success);
  ASSERT_EQ(functions.ipc_get_event(&event_handle, event), Status::success);
  EXPECT_EQ(functions.ipc_open_event(&opened, event_handle), Status::invalid_context);
  EXPECT_EQ(functions.event_destroy(event), Status::success);
  // The pid is not the reason here, so it is not named.
  CudaDriver driver;
  Classifier classifier(driver);
  Exporter exporter(functions, self);
  const auto offer = exporter.offer(*classifier.classify(reinterpret_cast<void*>(memory), 8));
  ASSERT_TRUE(offer);
  const auto mapping = cache.open(*offer, 0, -1);
  ASSERT_FALSE(mapping);
  EXPECT_THAT(mapping.error().text(), testing::Not(HasSubstr("process id")));
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(MappingTest, SaysThatTheDriverRefusesIpc) {
  Player exporter("exporter");
  const Letter offer = wish(exporter, Wish::allocate, number(MemoryKind::device));
  const Fault fault("REFUSE", "ipc", "");
  const auto mapping = cache.open(offer.offer, 0, -1);
  ASSERT_FALSE(mapping);
  EXPECT_THAT(mapping.error().text(), HasSubstr("CUDA_ERROR_MAP_FAILED"));
}

TEST_F(MappingTest, SharesEvents) {
  Player exporter("exporter");
  const Letter letter = wish(exporter, Wish::event);
  ASSERT_EQ(letter.number, 0U);
  cuda::Event event = nullptr;
  ASSERT_EQ(functions.ipc_open_event(&event, letter.event), Status::success);
  EXPECT_EQ(functions.event_query(event), Status::not_ready);
  EXPECT_EQ(functions.stream_wait_event(nullptr, event, 0), Status::success);
  EXPECT_EQ(functions.stream_query(nullptr), Status::not_ready);
  wish(exporter, Wish::release);
  EXPECT_EQ(functions.stream_synchronize(nullptr), Status::success);
  EXPECT_EQ(functions.event_query(event), Status::success);
  EXPECT_EQ(functions.event_destroy(event), Status::success);
}

class ExporterTest : public MappingTest {
 protected:
  Buffer classify(cuda::Address address, std::size_t bytes = 8) {
    return *classifier.classify(reinterpret_cast<void*>(address), bytes);
  }
  /// Why a buffer cannot be exported.
  std::string refusal(const Buffer& buffer) {
    const auto offer = exporter.offer(buffer);
    EXPECT_FALSE(offer);
    return offer ? "" : offer.error().text();
  }
  CudaDriver driver;
  Classifier classifier{driver};
  Exporter exporter{functions, self};
};

TEST_F(ExporterTest, AsksTheDriverOnceForEachAllocation) {
  const cuda::Address memory = allocate(10000);
  ASSERT_TRUE(exporter.offer(classify(memory)));
  const Buffer buffer = classify(memory + 500, 100);
  const auto calls = control.calls();
  const auto offer = exporter.offer(buffer);
  EXPECT_EQ(control.calls(), calls);
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->offset, 500U);
  EXPECT_EQ(offer->bytes, 100U);
  EXPECT_EQ(offer->room, 10000U);
  EXPECT_EQ(functions.free(memory), Status::success);
}

TEST_F(ExporterTest, HoldsNoDescriptorsThatWouldKeepFreedMemory) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  {
    const VmmMemory memory(functions, 0);
    ASSERT_TRUE(exporter.offer(classify(memory.address)));
    const auto descriptor = exporter.descriptor(classify(memory.address).allocation);
    ASSERT_TRUE(descriptor) << descriptor.error().text();
    EXPECT_GE(descriptor->get(), 0);
  }
  EXPECT_EQ(descriptors(), before);
}

std::vector<std::uint64_t> freed_of(Exporter& exporter) {
  std::vector<std::uint64_t> freed;
  exporter.take_freed([&](std::uint64_t allocation) { freed.push_back(allocation); });
  return freed;
}

TEST_F(ExporterTest, TellsWhichOfItsExportsAreFreed) {
  const cuda::Address kept = allocate(100);
  const cuda::Address freed = allocate(200);
  VmmMemory memory(functions, 0);
  ASSERT_TRUE(exporter.offer(classify(kept)));
  const auto first = exporter.offer(classify(freed));
  const auto second = exporter.offer(classify(memory.address));
  ASSERT_TRUE(first && second);
  EXPECT_THAT(freed_of(exporter), testing::IsEmpty());
  EXPECT_EQ(functions.free(freed), Status::success);
  memory.map_other();
  const auto descriptor = exporter.descriptor(second->allocation);
  ASSERT_FALSE(descriptor) << "other memory lies there";
  EXPECT_THAT(descriptor.error().text(), HasSubstr("freed"));
  EXPECT_THAT(freed_of(exporter), testing::UnorderedElementsAre(first->allocation, second->allocation));
  EXPECT_THAT(freed_of(exporter), testing::IsEmpty());
  EXPECT_EQ(functions.free(kept), Status::success);
}

TEST_F(ExporterTest, SaysWhyItCannot) {
  const VmmMemory closed(functions, 0, cuda::HandleType::none);
  EXPECT_THAT(refusal(classify(closed.address)), HasSubstr("CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"));
  cuda::Pool pool = nullptr;
  ASSERT_EQ(functions.device_default_pool(&pool, 0), Status::success);
  cuda::Address memory = 0;
  ASSERT_EQ(functions.pool_allocate(&memory, 100, pool, nullptr), Status::success);
  EXPECT_THAT(refusal(classify(memory)), HasSubstr("as a device's default pool is"));
  EXPECT_EQ(functions.free(memory), Status::success);
  const VmmMemory open(functions, 0);
  EXPECT_THAT(refusal(classify(open.address + open.bytes - 4, 8)), HasSubstr("spans several allocations"));
  const int on_stack = 0;
  EXPECT_THAT(refusal(classify(address_of(&on_stack))), HasSubstr("pageable host memory"));
  {
    const Fault fault("REFUSE", "ipc", "");
    memory = allocate(100);
    EXPECT_THAT(refusal(classify(memory)),
                AllOf(HasSubstr("IPC handle"), HasSubstr("CUDA_ERROR_NOT_SUPPORTED")));
    EXPECT_EQ(functions.free(memory), Status::success);
  }
}

TEST_F(ExporterTest, DoesNotExportWhatItHasOpenedItself) {
  Player other("exporter");
  const Letter offer = wish(other, Wish::allocate, number(MemoryKind::device));
  const auto mapping = cache.open(offer.offer, 0, -1);
  ASSERT_TRUE(mapping);
  const Buffer buffer = classify(address_of((*mapping)->base()));
  EXPECT_EQ(buffer.kind, MemoryKind::device);
  EXPECT_FALSE(buffer.is_own);
  EXPECT_THAT(refusal(buffer), HasSubstr("belongs to another process"));
}

TEST_F(ExporterTest, WorksWhileTheProgramCapturesAStream) {
  const cuda::Address memory = allocate(100);
  Player other("exporter");
  const Letter offer = wish(other, Wish::allocate, number(MemoryKind::device));
  cuda::Stream stream = nullptr;
  ASSERT_EQ(functions.stream_create(&stream, cuda::stream_non_blocking), Status::success);
  ASSERT_EQ(functions.stream_begin_capture(stream, cuda::CaptureMode::global), Status::success);
  EXPECT_TRUE(exporter.offer(classify(memory)));
  EXPECT_TRUE(cache.open(offer.offer, 0, -1));
  cache.forget(offer.offer.exporter);
  cuda::Graph graph = nullptr;
  EXPECT_EQ(functions.stream_end_capture(stream, &graph), Status::success) << "its capture is not disturbed";
  EXPECT_EQ(functions.graph_destroy(graph), Status::success);
  EXPECT_EQ(functions.stream_destroy(stream), Status::success);
  EXPECT_EQ(functions.free(memory), Status::success);
}

/// Opens what it is sent, and answers with the reason if that fails.
int open_offers(const Line& line) {
  const cuda::Functions& functions = cuda_functions();
  cuda::PrimaryContexts contexts(functions);
  const auto gpus = GpuList::read(functions);
  const auto self = ProcessIdentity::here();
  MappingCache cache(contexts, *gpus, *self, {});
  UniqueFd descriptor;
  while (const auto letter = line.receive(&descriptor)) {
    Letter answer;
    answer.number = self->pid;
    const auto mapping = cache.open(letter->offer, 0, descriptor.get());
    answer.code = mapping ? 1 : 0;
    if (!mapping) answer.say(mapping.error().text());
    if (!line.send(answer)) return 1;
  }
  return 0;
}
const Role importer_role("importer", open_offers);

/// Two processes that are both process 1, as in two containers.
class EqualPids : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_have_namespaces()) GTEST_SKIP() << "this user may not make pid namespaces";
    made = ::mkdtemp(folder.data()) != nullptr;
    ASSERT_TRUE(made);
  }
  void TearDown() override {
    if (!made) return;
    EXPECT_TRUE(std::filesystem::remove(folder)) << "something is left in it";
  }
  Letter open(MemoryKind kind, bool equal) {
    const std::vector<std::string> settings{"EMULATED_CUDA_FOLDER=" + folder};
    Player exporter("exporter", {.settings = settings, .as_process_1 = true});
    Player importer("importer", {.settings = settings, .as_process_1 = equal});
    UniqueFd descriptor;
    const Letter offer = wish(exporter, Wish::allocate, number(kind), &descriptor);
    EXPECT_EQ(offer.offer.pid, 1U);
    const Letter answer = importer.ask(offer, nullptr, descriptor.get());
    EXPECT_EQ(answer.number == 1, equal);
    EXPECT_EQ(importer.end(), 0);
    EXPECT_EQ(exporter.end(), 0);
    return answer;
  }
  std::string folder = testing::TempDir() + "isthmus-cuda-XXXXXX";
  bool made = false;
};

TEST_F(EqualPids, KeepCudaMallocMemoryApartAndTheReasonNamesTheRemedy) {
  const Letter answer = open(MemoryKind::device, true);
  EXPECT_EQ(answer.code, 0);
  EXPECT_THAT(answer.words(),
              AllOf(HasSubstr("process id 1"), HasSubstr("MPI_Alloc_mem"), HasSubstr("--pid=host")));
}

TEST_F(EqualPids, DoNotMatterForVmmAndPoolMemory) {
  EXPECT_EQ(open(MemoryKind::vmm, true).code, 1);
  EXPECT_EQ(open(MemoryKind::pool, true).code, 1);
}

TEST_F(EqualPids, AreTheTrapAndNotThePidNamespaces) {
  EXPECT_EQ(open(MemoryKind::device, false).code, 1);
}

}  // namespace
}  // namespace isthmus::testing_cuda::mapping_test
