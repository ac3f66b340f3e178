#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "roles.hpp"

int main(int argc, char** argv) {
  // A handle that is left open at the end fails whoever left it.
  ::setenv("EMULATED_CUDA_LEAKS", "fail", 0);
  if (const auto status = isthmus::testing_cuda::play_role(argc, argv)) return *status;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
