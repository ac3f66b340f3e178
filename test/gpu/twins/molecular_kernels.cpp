// The kernels of apps/molecular on the emulated driver.
#include "blocks.hpp"
#include "fused.hpp"
#include "points_twin.hpp"
#include "work.hpp"

using namespace molecular;

extern "C" __attribute__((visibility("default"))) const EmulatedTwin emulated_twins[] = {
    twins::points_twin<MoveWork>,
    twins::points_twin<PackAtomsWork>,
    twins::points_twin<UnpackAtomsWork>,
    twins::points_twin<SortWork>,
    twins::points_twin<DensityWork>,
    twins::points_twin<PackSlopesWork>,
    twins::points_twin<UnpackSlopesWork>,
    twins::points_twin<ForceWork>,
    {FusedWork::kernel, testing_twins::run_twin<FusedWork, fused>, twins::bytes_of<FusedWork>},
    {nullptr, nullptr, nullptr}};
