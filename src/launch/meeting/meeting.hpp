#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "launch/launcher/key_values.hpp"
#include "launch/region/shared_region.hpp"
#include "place/place.hpp"

/// How the processes of a job find out who shares memory with whom: by doing it (SR-IOV paper, section III-B;
/// C-GDR paper, section III-A).
///
/// All publish their `Place` and wait for each other. Processes of the same kernel (boot id) are candidates.
/// Each asks the candidates of lower rank, the lowest first, for a region; the first that gives one decides,
/// and who gets none founds one. So each waits for lower ranks alone, nobody waits in a circle, and one who
/// has a region can hand it on to those who do not reach its founder. Then each writes its byte into the
/// roster of its region, all wait for each other again, and what stands in the roster shares the memory.
namespace isthmus::launch {

/// Why a process of the same kernel shares no memory with this one.
struct Refusal {
  std::uint32_t rank;
  std::string text;
};

/// This process, and the one whose region it would like to share.
struct Approach {
  const Place& mine;
  const Place& theirs;
  std::uint32_t rank;  ///< of this process
  const wire::JobKey& key;
  const Settings& settings;
  std::uint32_t their_rank = 0;
  int their_segment = -1;  ///< System V segment that they may found their region in, -1 for none
};

/// One way to come into another's region; waits until it has one. The reason of a failure is a part of a
/// sentence. The other side of each is in place before anybody tries.
struct Way {
  std::string_view name;
  Result<SharedRegion> (*enter)(const Approach&);
};
/// All that this library knows, in the order in which they are tried.
std::span<const Way> all_ways() noexcept;

/// What comes of it.
struct Met {
  SharedRegion region;
  std::uint32_t slot = 0;
  std::vector<std::uint32_t> members;  ///< by slot
  std::vector<Refusal> refusals;       ///< of candidates that are no members, by rank
  bool inherited = false;              ///< it is the region that the launcher has made
};

/// Ranks by slot of a region that a launcher made for those of one host: what it wrote into their
/// `PlaceRecord`s. Fails unless they ascend within the job.
Result<std::vector<std::uint32_t>> inherited_members(const wire::RegionView& region);

/// Meets the other processes of the job. `inherited` is the region that the launcher gave this process, if
/// any: where all candidates have the same, it is taken as it is. Collective. On return this process's record
/// is in its slot, without the address of a probe, and its roster byte says `joined`, as with all members;
/// for an inherited region that is left to the caller.
Result<Met> meet(KeyValues& launcher, const Settings& settings, Place mine,
                 std::optional<SharedRegion> inherited, std::span<const Way> ways = all_ways());

/// A region for this process alone, in a job of several: its first slot.
Result<Met> stay_alone(const KeyValues& launcher, const Settings& settings, const Place& mine);

/// Fills in what a process says about itself; what a launcher has written about binding stays.
void publish(wire::PlaceRecord& record, const Place& place, std::uint32_t rank);

}  // namespace isthmus::launch
