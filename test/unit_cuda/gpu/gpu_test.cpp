#include "gpu/driver/gpu.hpp"

#include "cuda_fixture.hpp"
#include "roles.hpp"

namespace isthmus::testing_cuda::gpu_test {
namespace {

TEST(GpuList, DescribesWhatTheProcessSees) {
  const auto list = GpuList::read(cuda_functions());
  ASSERT_TRUE(list) << list.error().text();
  ASSERT_EQ(list->gpus().size(), 2U);
  const Gpu& first = list->gpus()[0];
  EXPECT_EQ(first.name, "Emulated GPU");
  EXPECT_EQ(first.pci, "0000:10:00.0");
  EXPECT_EQ(to_string(first.uuid), "GPU-11181f26-2d34-3b42-4950-575e656c737a");
  EXPECT_NE(list->gpus()[1].uuid, first.uuid);
  EXPECT_EQ(list->find(list->gpus()[1].uuid), 1);
  EXPECT_EQ(list->find(cuda::Uuid{}), std::nullopt);
  EXPECT_EQ(list->link(0, 1), PeerLink::nvlink);
  EXPECT_EQ(list->link(0, 7), PeerLink::none);
}

/// Answers with the UUIDs that it sees and the links of the first with the others.
int describe_gpus(const Line& line) {
  const auto list = GpuList::read(cuda_functions());
  if (!list) return 1;
  std::string text;
  for (const Gpu& gpu : list->gpus())
    text += to_string(gpu.uuid).substr(0, 6) + " " + std::string(name_of(list->link(0, gpu.ordinal))) + ", ";
  Letter letter;
  letter.say(text);
  return line.send(letter) ? 0 : 2;
}
const Role describe_gpus_role("describe GPUs", describe_gpus);

TEST(GpuList, FollowsVisibleDevicesAndTheirOrder) {
  Player player("describe GPUs",
                {.settings = {"EMULATED_CUDA_DEVICES=4", "CUDA_VISIBLE_DEVICES=3,GPU-11181f26,9,1"}});
  EXPECT_EQ(player.line().receive()->words(), "GPU-44 NVLink, GPU-11 NVLink, ")
      << "what there is not ends the list";
}

TEST(GpuList, TellsLinksApart) {
  Player player("describe GPUs",
                {.settings = {"EMULATED_CUDA_DEVICES=3", "EMULATED_CUDA_LINKS=pcie,0-2:none"}});
  EXPECT_EQ(player.line().receive()->words(), "GPU-11 NVLink, GPU-22 PCIe, GPU-33 none, ");
}

}  // namespace
}  // namespace isthmus::testing_cuda::gpu_test
