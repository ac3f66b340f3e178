#include "launch/job.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/whole_number.hpp"
#include "launch/beside_turns.hpp"
#include "launch/visit/region_socket.hpp"
#include "place/spot.hpp"

namespace isthmus::launch {
namespace {

void publish_probe(wire::PlaceRecord& record, const Probe& probe) {
  record.probe_address = probe.address;
  record.probe_nonce = probe.nonce;
}

void unbind_place(wire::PlaceRecord& place) {
  place.package = place.numa = place.core = -1;
}

template <std::size_t N>
std::string bounded(const std::array<char, N>& text) {
  return {text.data(), ::strnlen(text.data(), N)};
}

Job make_job(std::uint32_t rank, bool singleton, SharedRegion region, std::vector<std::uint32_t> members) {
  const wire::RegionHeader& header = region.view.header();
  const auto slot = std::ranges::lower_bound(members, rank) - members.begin();
  std::shared_ptr<DescriptorBox> box;
  if (region.box) box = std::make_shared<DescriptorBox>(std::move(region.box), rank);
  return Job{.rank = rank,
             .size = region.view.world(),
             .singleton = singleton,
             .slot = static_cast<std::uint32_t>(slot),
             .members = std::move(members),
             .name = bounded(header.job),
             .host = bounded(header.host),
             .launcher = nullptr,
             .refusals = {},
             .region = region.view,
             .mapping = std::move(region.mapping),
             .device = std::move(region.device),
             .region_fd = std::move(region.fd),
             .box = std::move(box)};
}

Job make_job(std::uint32_t rank, bool singleton, SharedRegion region) {
  std::vector<std::uint32_t> everybody(region.view.slots());
  std::iota(everybody.begin(), everybody.end(), std::uint32_t{0});
  return make_job(rank, singleton, std::move(region), std::move(everybody));
}

std::string quoted(const char* variable, const char* value) {
  return std::string(variable) + "='" + value + "'";
}

constexpr const char* unset_hint = "; both are set by mpiexec: unset them to run as a job of one rank";

/// Makes the roster byte `joined`, once.
Result<> enter_roster(const Job& job, const Place& place, const Probe& probe) {
  auto& state = job.region.roster(job.rank);
  auto seen = state.load(std::memory_order_acquire);
  if (seen == wire::RosterState::absent) {
    wire::PlaceRecord& record = job.region.block(job.slot).place;
    publish(record, place, job.rank);
    publish_probe(record, probe);
    if (state.compare_exchange_strong(seen, wire::RosterState::joined, std::memory_order_release,
                                      std::memory_order_acquire))
      return {};
  }
  const bool ended = seen == wire::RosterState::finalized;
  return fail(ErrorClass::other,
              "rank " + std::to_string(job.rank) + " has " + "already been joined" +
                  (ended ? " and finalized" : "") + " by process " +
                  std::to_string(job.region.block(job.slot).place.pid) +
                  ": a rank can be one MPI program only; start each under an mpiexec of its own");
}

/// Lets the others see that this process lives. Where it cannot, they learn of its end only from a launcher.
void show_life(Job& job) {
  if (!job.region_fd || job.members.size() < 2) return;
  if (auto line = LifeLine::take(job.region_fd.get(), job.slot)) {
    job.life = std::move(*line);
    job.region.block(job.slot).life.store(wire::Life::locked, std::memory_order_release);
  }
}

/// What our own mpiexec tells its ranks.
struct Inheritance {
  std::uint32_t rank = 0;
  SharedRegion region;
  CpuSet spare_cpus;
};

/// Empty where there are none: what would use them does without.
CpuSet inherited_spare_cpus() {
  const char* text = std::getenv(launcher_variable::spare_cpus);
  auto cpus = text ? CpuSet::parse(text) : Result<CpuSet>();
  return cpus ? std::move(*cpus) : CpuSet();
}

/// Empty where there is none, or something between has closed it: what would need it says so.
UniqueFd inherited_box() {
  const char* text = std::getenv(launcher_variable::box);
  const auto fd = text ? whole_number<std::uint32_t>(text) : std::nullopt;
  if (!fd || *fd > std::numeric_limits<int>::max() || !DescriptorBox::is_one(static_cast<int>(*fd)))
    return {};
  ::fcntl(static_cast<int>(*fd), F_SETFD, FD_CLOEXEC);
  return UniqueFd(static_cast<int>(*fd));
}

Result<Inheritance> inherit(const char* rank_text, const char* region_text) {
  if (!rank_text || !region_text) {
    const bool has_rank = rank_text != nullptr;
    return fail(ErrorClass::arg, quoted(has_rank ? launcher_variable::rank : launcher_variable::region,
                                        has_rank ? rank_text : region_text) +
                                     " is set, but " +
                                     (has_rank ? launcher_variable::region : launcher_variable::rank) +
                                     " is not" + unset_hint);
  }
  const auto rank = whole_number<std::uint32_t>(rank_text);
  if (!rank)
    return fail(ErrorClass::arg, quoted(launcher_variable::rank, rank_text) +
                                     " is not a rank (a whole number from 0)" + unset_hint);
  Handed fetched;
  if (std::strchr(region_text, '/')) {
    auto from_socket = fetch_region(region_text, std::getenv(launcher_variable::key));
    if (!from_socket) return std::unexpected(std::move(from_socket).error());
    fetched = std::move(*from_socket);
  } else {
    fetched.box = inherited_box();
  }
  const auto fd = fetched.region ? std::optional(static_cast<std::uint32_t>(fetched.region.get()))
                                 : whole_number<std::uint32_t>(region_text);
  if (!fd || *fd > std::numeric_limits<int>::max())
    return fail(ErrorClass::arg, quoted(launcher_variable::region, region_text) +
                                     " is not the number of a file descriptor" + unset_hint);
  auto region = open_region(static_cast<int>(*fd));
  if (!region)
    return fail(region.error().error_class(),
                quoted(launcher_variable::region, region_text) + ": " + region.error().text());
  static_cast<void>(fetched.region.leak());  // the region's now
  if (DescriptorBox::is_one(fetched.box.get())) region->box = std::move(fetched.box);
  if (*rank >= region->view.world())
    return fail(ErrorClass::arg, quoted(launcher_variable::rank, rank_text) +
                                     " is not a rank of the job: it has " +
                                     std::to_string(region->view.world()) + " ranks, from 0");
  return Inheritance{*rank, std::move(*region), inherited_spare_cpus()};
}

void unset_launcher_variables() {
  ::unsetenv(launcher_variable::rank);
  ::unsetenv(launcher_variable::region);
  ::unsetenv(launcher_variable::key);
  ::unsetenv(launcher_variable::box);
  ::unsetenv(launcher_variable::spare_cpus);
}

/// A job of one host: the region is all that it needs.
Result<Job> join_launched(Inheritance inheritance, const Place& place, const Probe& probe) {
  Job job = make_job(inheritance.rank, false, std::move(inheritance.region));
  job.spare_cpus = std::move(inheritance.spare_cpus);
  ISTHMUS_TRY(enter_roster(job, place, probe));
  show_life(job);
  unset_launcher_variables();
  forget_key_values();  // mpiexec offers PMI to every program
  return job;
}

/// As the launcher has it, without asking anybody.
Result<Met> take_static(const KeyValues& launcher, const Settings& settings, const Place& place,
                        std::optional<SharedRegion> inherited) {
  if (!inherited) return stay_alone(launcher, settings, place);
  auto members = inherited_members(inherited->view);
  if (!members) return std::unexpected(std::move(members).error());
  if (!std::ranges::binary_search(*members, launcher.rank()))
    return fail(ErrorClass::arg, "the region that this process has inherited has no place for rank " +
                                     std::to_string(launcher.rank()));
  return Met{.region = std::move(*inherited), .members = std::move(*members), .inherited = true};
}

/// Ranks of one process cannot spin: one waits for the other.
Settings settings_of_waits(Settings settings, const RankTurns* turns) {
  if (turns && settings.idle == IdleSetting::automatic) settings.idle = IdleSetting::sleep;
  return settings;
}

/// A job that may be on several hosts.
Result<Job> join_through(std::unique_ptr<KeyValues> launcher, std::optional<Inheritance> inheritance,
                         const Settings& settings, const Place& place, const Probe& probe, RankTurns* turns) {
  const std::uint32_t rank = launcher->rank();
  std::optional<SharedRegion> inherited;
  CpuSet spare_cpus;
  if (inheritance) {
    if (inheritance->rank != rank || inheritance->region.view.world() != launcher->size())
      return fail(ErrorClass::arg,
                  std::string(launcher_variable::rank) + " and " + launcher_variable::region +
                      " speak of rank " + std::to_string(inheritance->rank) + " of " +
                      std::to_string(inheritance->region.view.world()) + ", " +
                      std::string(launcher->protocol()) + " of rank " + std::to_string(rank) + " of " +
                      std::to_string(launcher->size()) + unset_hint);
    inherited = std::move(inheritance->region);
    spare_cpus = std::move(inheritance->spare_cpus);
  }
  std::optional<wire::RegionView> notices;
  std::shared_ptr<const SharedMapping> notices_mapping;
  if (inherited) {
    notices = inherited->view;
    notices_mapping = inherited->mapping;
  }
  const bool is_static = settings.locality == LocalitySetting::static_locality;
  auto met =
      is_static ? take_static(*launcher, settings, place, std::move(inherited)) : beside_turns(turns, [&] {
        return meet(*launcher, settings_of_waits(settings, turns), place, std::move(inherited));
      });
  if (!met) return std::unexpected(std::move(met).error());
  Job job = make_job(rank, false, std::move(met->region), std::move(met->members));
  job.refusals = std::move(met->refusals);
  job.launcher = std::move(launcher);
  job.spare_cpus = std::move(spare_cpus);
  if (met->inherited) {
    ISTHMUS_TRY(enter_roster(job, place, probe));
  } else {
    job.inherited = notices;
    job.inherited_mapping = std::move(notices_mapping);
    publish_probe(job.region.block(job.slot).place, probe);
  }
  show_life(job);
  job.region_fd.reset();
  unset_launcher_variables();
  return job;
}

Result<SharedRegion> make_own_region(std::uint32_t ranks, wire::RingGeometry geometry, wire::IdlePolicy idle,
                                     const Place& place) {
  auto key = make_job_key();
  if (!key) return std::unexpected(std::move(key).error());
  const std::string name = std::string(program_invocation_short_name) + "." + std::to_string(::getpid());
  const auto threads = static_cast<std::uint32_t>(std::max<std::size_t>(place.cpus.size(), 1));
  return make_region(wire::RegionShape::of(ranks, geometry), {.key = *key,
                                                              .idle = idle,
                                                              .cores = threads,
                                                              .universe = std::max(ranks, threads),
                                                              .job = name.c_str(),
                                                              .host = place.host.c_str()});
}

Result<Job> join_alone(const Settings& settings, const Place& place, const Probe& probe) {
  const auto idle = settings.idle == IdleSetting::sleep ? wire::IdlePolicy::sleep : wire::IdlePolicy::spin;
  auto region = make_own_region(1, ring_geometry(settings, 1), idle, place);
  if (!region) return std::unexpected(std::move(region).error());
  unbind_place(region->view.block(0).place);
  Job job = make_job(0, true, std::move(*region));
  ISTHMUS_TRY(enter_roster(job, place, probe));
  return job;
}

}  // namespace

void Job::leave_process() noexcept {
  if (life) region.block(slot).life.store(wire::Life::unknown, std::memory_order_release);
  life.reset();
  if (box) box->use({});
}

Result<> Job::enter_process() {
  if (box) {
    UniqueFd socket(::fcntl(turns->box_descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!socket) return fail(ErrorClass::other, "the box of descriptors is closed in this process");
    box->use(std::move(socket));
  }
  if (members.size() < 2) return {};
  auto line = LifeLine::take(turns->region_descriptor(), slot);
  if (!line) return std::unexpected(std::move(line).error());
  life = std::move(*line);
  region.block(slot).life.store(wire::Life::locked, std::memory_order_release);
  return {};
}

void Job::enter_host() {
  host = bounded(region.header().host);
  region.roster(rank).store(wire::RosterState::joined, std::memory_order_release);
}

std::optional<std::uint32_t> Job::slot_of(std::uint32_t other) const noexcept {
  if (const HostLines* const between = lines())
    return between->is_on_this_host(other) ? std::optional(other) : std::nullopt;
  if (on_one_host()) return other;
  const auto found = std::ranges::lower_bound(members, other);
  if (found == members.end() || *found != other) return std::nullopt;
  return static_cast<std::uint32_t>(found - members.begin());
}

bool Job::refused_to_share(std::uint32_t other) const noexcept {
  return std::ranges::find(refusals, other, &Refusal::rank) != refusals.end();
}

std::string Job::why_apart(std::uint32_t other) const {
  const auto found = std::ranges::find(refusals, other, &Refusal::rank);
  return found != refusals.end() ? found->text : "it runs on another host";
}

namespace {

Result<Job> join_as_one(const Settings& settings, const Probe& probe, RankTurns* turns) {
  auto place = Place::here();
  if (!place) return std::unexpected(std::move(place).error());
  const char* rank = std::getenv(launcher_variable::rank);
  const char* region = std::getenv(launcher_variable::region);
  std::optional<Inheritance> inheritance;
  if (rank || region) {
    auto inherited = inherit(rank, region);
    if (!inherited) return std::unexpected(std::move(inherited).error());
    inheritance = std::move(*inherited);
    if (inheritance->region.view.slots() == inheritance->region.view.world())
      return join_launched(std::move(*inheritance), *place, probe);
  }
  auto launcher = find_key_values();
  if (!launcher) return std::unexpected(std::move(launcher).error());
  if (*launcher) {
    const Spot spot = find_spot(place->cpus);
    place->package = spot.package;
    place->numa = spot.numa;
    return join_through(std::move(*launcher), std::move(inheritance), settings, *place, probe, turns);
  }
  if (inheritance)
    return fail(ErrorClass::arg, quoted(launcher_variable::region, region) +
                                     " is for the ranks of one host of several, but there is no launcher "
                                     "(PMI_FD) through which to find the others");
  return join_alone(settings, *place, probe);
}

}  // namespace

Result<Job> join(const Settings& settings, const Probe& probe, RankTurns* turns) {
  auto job = join_as_one(settings, probe, turns);
  if (job) job->turns = turns;
  return job;
}

Result<std::vector<Job>> local_jobs(std::uint32_t ranks, wire::RingGeometry geometry, wire::IdlePolicy idle) {
  auto place = Place::here();
  if (!place) return std::unexpected(std::move(place).error());
  auto region = make_own_region(ranks, geometry, idle, *place);
  if (!region) return std::unexpected(std::move(region).error());
  std::vector<Job> jobs;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    unbind_place(region->view.block(rank).place);
    UniqueFd fd = rank == 0 ? std::move(region->fd) : UniqueFd{};
    jobs.push_back(make_job(rank, false, SharedRegion{std::move(fd), region->mapping, region->view}));
    jobs.back().in_process = true;
    ISTHMUS_TRY(enter_roster(jobs.back(), *place, {}));
  }
  return jobs;
}

}  // namespace isthmus::launch
