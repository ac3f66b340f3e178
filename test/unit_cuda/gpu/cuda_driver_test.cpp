#include "gpu/driver/cuda_driver.hpp"

#include <dlfcn.h>

#include "cuda_fixture.hpp"
#include "gpu/memory/classify.hpp"
#include "roles.hpp"

namespace isthmus::testing_cuda::cuda_driver_test {
namespace {

using testing::HasSubstr;

// Each of these needs a process of its own, since what is loaded stays.

int never_loads_it(const Line&) {
  CudaDriver driver;
  Classifier classifier(driver);
  std::array<char, 100> stack{};
  const std::vector<char> large(1 << 20U);
  for (const void* address :
       {static_cast<const void*>(stack.data()), static_cast<const void*>(large.data())}) {
    const auto buffer = classifier.classify(address, 8);
    if (!buffer || buffer->kind != MemoryKind::pageable) return 1;
  }
  if (driver.find()) return 2;
  return dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY) ? 3 : 0;
}
const Role never_loads_it_role("never loads it", never_loads_it);

TEST(CudaDriver, IsNotLoadedForAHostOnlyProgram) {
  EXPECT_EQ(Player("never loads it").end(), 0);
}

int waits_for_initialisation(const Line&) {
  CudaDriver driver;
  if (driver.find()) return 1;
  const Control& control = load_emulated();
  if (driver.find()) return 2;  // loaded, not initialised
  // The one question that tells, each time.
  const auto calls = control.calls();
  if (driver.find() || control.calls() != calls + 1) return 3;
  const auto init = reinterpret_cast<decltype(cuda::Functions::init)>(symbol("cuInit"));
  if (init(0) != Status::success) return 4;
  const cuda::Functions* functions = driver.find();
  if (!functions) return 5;
  const auto found_with = control.calls();
  if (driver.find() != functions || control.calls() != found_with) return 6;
  int count = 0;
  return functions->device_count(&count) == Status::success && count == 2 ? 0 : 7;
}
const Role waits_for_initialisation_role("waits for initialisation", waits_for_initialisation);

TEST(CudaDriver, IsUsedOnceTheProgramHasInitialisedIt) {
  EXPECT_EQ(Player("waits for initialisation").end(), 0);
}

int found_when_loaded_before(const Line&) {
  load_emulated();
  const auto init = reinterpret_cast<decltype(cuda::Functions::init)>(symbol("cuInit"));
  if (init(0) != Status::success) return 1;
  CudaDriver driver;
  return driver.find() ? 0 : 2;
}
const Role found_when_loaded_before_role("found when loaded before", found_when_loaded_before);

TEST(CudaDriver, IsFoundIfItWasThereBefore) {
  EXPECT_EQ(Player("found when loaded before").end(), 0);
}

int found_after_a_question(const Line&) {
  CudaDriver driver;
  if (driver.find()) return 1;
  if (!driver.is_there(emulated_path().c_str())) return 2;
  if (driver.find()) return 3;
  load_emulated();
  const auto init = reinterpret_cast<decltype(cuda::Functions::init)>(symbol("cuInit"));
  if (init(0) != Status::success) return 4;
  return driver.find() ? 0 : 5;
}
const Role found_after_a_question_role("found after a question", found_after_a_question);

TEST(CudaDriver, IsFoundWhereSomebodyHasAskedWhetherItIsThereBeforeItWasInitialised) {
  EXPECT_EQ(Player("found after a question").end(), 0);
}

TEST(CudaDriver, SaysWhatIsMissingAndWhatThatMeans) {
  CudaDriver driver;
  const auto opened = driver.open("/no/such/libcuda.so.1");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().text(), HasSubstr("/no/such/libcuda.so.1"));
  EXPECT_THAT(opened.error().text(), HasSubstr("GPUs cannot be sent"));
  CudaDriver wrong;
  const auto foreign = wrong.open("libc.so.6");
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().text(), HasSubstr("cuMemAlloc_v2"));
  EXPECT_THAT(wrong.complaint(), HasSubstr("older"));
}

int without_devices(const Line&) {
  CudaDriver driver;
  const auto opened = driver.open(emulated_path().c_str());
  if (opened) return 1;
  return opened.error().text().contains("CUDA_ERROR_NO_DEVICE") ? 0 : 2;
}
const Role without_devices_role("without devices", without_devices);

TEST(CudaDriver, SaysThatThereIsNoGpu) {
  EXPECT_EQ(Player("without devices", {.settings = {"CUDA_VISIBLE_DEVICES="}}).end(), 0);
}

}  // namespace
}  // namespace isthmus::testing_cuda::cuda_driver_test
