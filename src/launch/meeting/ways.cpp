#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "launch/meeting/meeting.hpp"
#include "launch/visit/broker.hpp"
#include "launch/visit/descriptor_box.hpp"

namespace isthmus::launch {
namespace {

/// Long enough for a process that is stopped or swapped out for a moment. One that has ended hangs up.
constexpr int answer_seconds = 60;

Result<SharedRegion> ask(const Approach& approach, const BrokerAddress& address) {
  auto handed = visit(address, {.socket = approach.theirs.socket, .rank = approach.rank, .key = approach.key},
                      answer_seconds);
  if (!handed) return std::unexpected(std::move(handed).error());
  auto region = open_region(handed->region.get());
  if (!region) return std::unexpected(std::move(region).error());
  static_cast<void>(handed->region.leak());  // it is the region's now
  if (DescriptorBox::is_one(handed->box.get())) region->box = std::move(handed->box);
  if (region->view.header().key != approach.key)
    return fail(ErrorClass::intern, "it hands out the region of another job");
  return region;
}

Result<SharedRegion> ask_in(const Approach& approach, const std::string& folder) {
  auto address = BrokerAddress::in_folder(folder, approach.theirs.socket);
  if (!address) return std::unexpected(std::move(address).error());
  return ask(approach, *address);
}

/// Waits until its maker has decided where it is: in the segment, or with others.
Result<SharedRegion> enter_segment(const Approach& approach) {
  if (!approach.mine.shares(Namespace::ipc, approach.theirs)) return fail(ErrorClass::other, "not shared");
  if (approach.their_segment < 0) return fail(ErrorClass::other, "it has no segment");
  auto region = open_segment_region(approach.their_segment);
  if (!region) return region;
  if (region->view.header().key != approach.key || approach.their_rank >= region->view.world())
    return fail(ErrorClass::intern, "the segment is of another job");
  const auto& theirs = region->view.roster(approach.their_rank);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(answer_seconds);
  while (theirs.load(std::memory_order_acquire) == wire::RosterState::absent) {
    if (std::chrono::steady_clock::now() > deadline)
      return fail(ErrorClass::other, "it does not answer within " + std::to_string(answer_seconds) + " s");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (theirs.load(std::memory_order_acquire) == wire::RosterState::finalized)
    return fail(ErrorClass::other, "it has met others");
  return region;
}

constexpr std::array<Way, 4> ways{{
    {"abstract socket",
     [](const Approach& approach) { return ask(approach, BrokerAddress::abstract(approach.theirs.socket)); }},
    {"ISTHMUS_RENDEZVOUS_DIR",
     [](const Approach& approach) -> Result<SharedRegion> {
       if (approach.settings.rendezvous_dir.empty()) return fail(ErrorClass::other, "not set");
       return ask_in(approach, approach.settings.rendezvous_dir);
     }},
    // A socket in it, not a file: memory in it is limited, 64 MB in most containers, a memfd is not.
    {"/dev/shm", [](const Approach& approach) { return ask_in(approach, "/dev/shm"); }},
    {"IPC namespace", enter_segment},
}};

}  // namespace

std::span<const Way> all_ways() noexcept {
  return ways;
}

}  // namespace isthmus::launch
