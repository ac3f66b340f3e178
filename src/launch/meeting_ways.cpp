#include <array>

#include "launch/broker.hpp"
#include "launch/meeting.hpp"

namespace isthmus::launch {
namespace {

/// Long enough for a process that is stopped or swapped out for a moment. One that has ended hangs up.
constexpr int answer_seconds = 60;

Result<SharedRegion> ask(const Approach& approach, const BrokerAddress& address) {
  const wire::VisitRequest request{
      .socket = approach.theirs.socket, .rank = approach.rank, .key = approach.key};
  auto fd = visit(address, request, answer_seconds);
  if (!fd) return std::unexpected(std::move(fd).error());
  auto region = open_region(fd->get());
  if (!region) return std::unexpected(std::move(region).error());
  static_cast<void>(fd->leak());  // it is the region's now
  if (region->view.header().key != approach.key)
    return fail(ErrorClass::intern, "it hands out the region of another job");
  return region;
}

Result<SharedRegion> ask_in(const Approach& approach, const std::string& folder) {
  auto address = BrokerAddress::in_folder(folder, approach.theirs.socket);
  if (!address) return std::unexpected(std::move(address).error());
  return ask(approach, *address);
}

constexpr std::array<Way, 3> ways{{
    {"abstract socket",
     [](const Approach& approach) { return ask(approach, BrokerAddress::abstract(approach.theirs.socket)); }},
    {"ISTHMUS_RENDEZVOUS_DIR",
     [](const Approach& approach) -> Result<SharedRegion> {
       if (approach.settings.rendezvous_dir.empty()) return fail(ErrorClass::other, "not set");
       return ask_in(approach, approach.settings.rendezvous_dir);
     }},
    // A socket in it, not a file: memory in it is limited, 64 MB in most containers, a memfd is not.
    {"/dev/shm", [](const Approach& approach) { return ask_in(approach, "/dev/shm"); }},
}};

}  // namespace

std::span<const Way> all_ways() noexcept {
  return ways;
}

}  // namespace isthmus::launch
