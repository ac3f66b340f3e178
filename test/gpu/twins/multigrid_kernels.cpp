// The kernels of apps/multigrid on the emulated driver.
#include "blocks.hpp"
#include "fused.hpp"
#include "points_twin.hpp"
#include "work.hpp"

using namespace multigrid;

extern "C" __attribute__((visibility("default"))) const EmulatedTwin emulated_twins[] = {
    twins::points_twin<LocalWork>,
    twins::points_twin<PackWork>,
    twins::points_twin<UnpackWork>,
    twins::points_twin<SmoothWork>,
    twins::points_twin<RestrictWork>,
    twins::points_twin<InterpolateWork>,
    {FusedWork::kernel, testing_twins::run_twin<FusedWork, fused>, twins::bytes_of<FusedWork>},
    {nullptr, nullptr, nullptr}};
