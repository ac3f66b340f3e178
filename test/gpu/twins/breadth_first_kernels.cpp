// The kernels of apps/breadth_first on the emulated driver.
#include "blocks.hpp"
#include "fused.hpp"
#include "points_twin.hpp"
#include "work.hpp"

using namespace breadth_first;

extern "C" __attribute__((visibility("default"))) const EmulatedTwin emulated_twins[] = {
    twins::points_twin<CopyWork>,
    twins::points_twin<LocalWork>,
    twins::points_twin<EdgesWork>,
    twins::points_twin<FoldWork>,
    twins::points_twin<BeginWork>,
    {FusedWork::kernel, testing_twins::run_twin<FusedWork, fused>, twins::bytes_of<FusedWork>},
    {nullptr, nullptr, nullptr}};
