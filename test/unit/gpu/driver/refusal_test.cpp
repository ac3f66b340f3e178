#include "gpu/driver/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "route/gpu/plan.hpp"

namespace isthmus::refusal_test {
namespace {

using testing::HasSubstr;

std::string remedy_of(const std::string& why) {
  return std::string(gpu_refusal::remedy_of(why));
}

TEST(GpuRefusal, HasARemedyForWhatTheDriverSays) {
  EXPECT_THAT(remedy_of("the CUDA driver refuses to " + std::string(gpu_refusal::no_ipc_handle.text) +
                        ": CUDA_ERROR_NOT_SUPPORTED, operation not supported"),
              HasSubstr("MPI_Alloc_mem"));
  EXPECT_THAT(remedy_of("the CUDA driver refuses to " + std::string(gpu_refusal::ipc_handle_not_opened.text) +
                        ": CUDA_ERROR_MAP_FAILED, mapping of buffer object failed"),
              HasSubstr("--ipc=host"));
  EXPECT_THAT(remedy_of(std::string(gpu_refusal::not_pinned.text) + ", not even 64 KiB: out of memory"),
              HasSubstr("ulimit -l"));
  EXPECT_EQ(remedy_of("the CUDA driver refuses to open a peer's memory pool"), "");
  EXPECT_EQ(remedy_of(""), "");
}

TEST(GpuRefusal, TakesTheReasonBehindWhatTheDriverSays) {
  const std::string refused = "the CUDA driver refuses to " +
                              std::string(gpu_refusal::ipc_handle_not_opened.text) +
                              ": CUDA_ERROR_MAP_FAILED";
  EXPECT_THAT(remedy_of(refused + " (GPU 0 has no peer access to GPU 1)"),
              HasSubstr("nvidia-smi topo -p2p r"));
  EXPECT_THAT(
      remedy_of(refused + " (it lies on GPU-0, which this process does not see: CUDA_VISIBLE_DEVICES)"),
      HasSubstr("--gpus all"));
}

TEST(GpuRefusal, HasARemedyForWhatAPlanRefuses) {
  GpuPlanInputs inputs;
  const auto remedy = [&] { return remedy_of(std::string(why_not(inputs, Protocol::gpu_pull))); };
  inputs.locality = GpuLocality::not_visible;
  EXPECT_THAT(remedy(), HasSubstr("--gpu-bind closest:order"));
  inputs.locality = GpuLocality::no_peer_access;
  EXPECT_THAT(remedy(), HasSubstr("nvidia-smi topo -p2p r"));
  inputs.from.kind = MemoryKind::managed;
  inputs.from.has_pages = true;
  EXPECT_THAT(remedy(), HasSubstr("cudaMalloc"));
  inputs = {.path = GpuPathSetting::staged};
  EXPECT_EQ(remedy(), "leave ISTHMUS_GPU_PATH at its default");
  inputs = {};
  EXPECT_EQ(remedy(), "");
}

}  // namespace
}  // namespace isthmus::refusal_test
