// The kernels of apps/molecular on the emulated driver.
#include "points_twin.hpp"
#include "work.hpp"

using namespace molecular;

extern "C" __attribute__((visibility("default"))) const EmulatedTwin emulated_twins[] = {
    twins::points_twin<MoveWork>,         twins::points_twin<PackAtomsWork>,
    twins::points_twin<UnpackAtomsWork>,  twins::points_twin<SortWork>,
    twins::points_twin<DensityWork>,      twins::points_twin<PackSlopesWork>,
    twins::points_twin<UnpackSlopesWork>, twins::points_twin<ForceWork>,
    {nullptr, nullptr, nullptr}};
