// What the program that holds several ranks calls (tools/virtual_ranks).

#include <cstddef>

#include "abi/core/runtime.hpp"
#include "vrank/process/run.hpp"

namespace isthmus::abi {
namespace {

constexpr vrank::Edge edge{
    .make = [](RankTurns& turns) -> void* { return &Runtime::make_virtual(turns); },
    .make_current = [](void* runtime) noexcept { Runtime::make_current(*static_cast<Runtime*>(runtime)); },
    .is_open = [](const void* runtime) noexcept { return static_cast<const Runtime*>(runtime)->running(); },
    .has_finalized =
        [](const void* runtime) noexcept {
          return static_cast<const Runtime*>(runtime)->world_phase() == Phase::finalized;
        }};

}  // namespace
}  // namespace isthmus::abi

extern "C" __attribute__((visibility("default"))) int isthmus_virtual_ranks_main(
    int count, char** arguments, std::size_t thread_local_room) {
  return isthmus::vrank::run_process(count, arguments, thread_local_room, isthmus::abi::edge, nullptr);
}

extern "C" __attribute__((visibility("default"))) int isthmus_migratable_ranks_main(
    int count, char** arguments, std::size_t thread_local_room, const isthmus::vrank::OwnMemory* memory) {
  return isthmus::vrank::run_process(count, arguments, thread_local_room, isthmus::abi::edge, memory);
}
