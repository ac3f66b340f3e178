#include "launch/job.hpp"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "launch/region_socket.hpp"

namespace isthmus::launch {
namespace {

constexpr std::array namespace_files{"/proc/self/ns/ipc", "/proc/self/ns/mnt",  "/proc/self/ns/net",
                                     "/proc/self/ns/pid", "/proc/self/ns/user", "/proc/self/ns/uts"};

/// Fills in what only the process itself knows; what the launcher has written about binding stays.
void publish_place(wire::PlaceRecord& place, std::uint32_t rank, const Probe& probe) {
  place.rank = rank;
  place.pid = ::getpid();
  place.uid = ::getuid();
  for (std::size_t i = 0; i < namespace_files.size(); ++i) {
    struct stat status{};
    place.namespaces[i] = ::stat(namespace_files[i], &status) == 0 ? status.st_ino : 0;  // 0: no /proc here
  }
  place.probe_address = probe.address;
  place.probe_nonce = probe.nonce;
}

void unbind_place(wire::PlaceRecord& place) {
  place.package = place.numa = place.core = -1;
}

template <std::size_t N>
std::string bounded(const std::array<char, N>& text) {
  return {text.data(), ::strnlen(text.data(), N)};
}

Job make_job(std::uint32_t rank, bool singleton, SharedRegion region) {
  const wire::RegionHeader& header = region.view.header();
  std::vector<std::uint32_t> everybody(region.view.slots());
  std::iota(everybody.begin(), everybody.end(), std::uint32_t{0});
  return Job{.rank = rank,
             .size = region.view.world(),
             .singleton = singleton,
             .slot = rank,
             .members = std::move(everybody),
             .name = bounded(header.job),
             .host = bounded(header.host),
             .launcher = nullptr,
             .region = region.view,
             .mapping = std::move(region.mapping),
             .region_fd = std::move(region.fd)};
}

std::string quoted(const char* variable, const char* value) {
  return std::string(variable) + "='" + value + "'";
}

/// A whole number from 0, without sign or space.
std::optional<std::uint32_t> parse(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

constexpr const char* unset_hint = "; both are set by mpiexec: unset them to run as a job of one rank";

/// Makes the roster byte `joined`, once.
Result<> enter_roster(const Job& job, const Probe& probe) {
  auto& state = job.region.roster(job.rank);
  auto seen = state.load(std::memory_order_acquire);
  if (seen == wire::RosterState::absent) {
    publish_place(job.region.block(job.slot).place, job.rank, probe);
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

Result<Job> join_launched(const char* rank_text, const char* region_text, const Probe& probe) {
  if (!rank_text || !region_text) {
    const bool has_rank = rank_text != nullptr;
    return fail(ErrorClass::arg, quoted(has_rank ? launcher_variable::rank : launcher_variable::region,
                                        has_rank ? rank_text : region_text) +
                                     " is set, but " +
                                     (has_rank ? launcher_variable::region : launcher_variable::rank) +
                                     " is not" + unset_hint);
  }
  const auto rank = parse(rank_text);
  if (!rank)
    return fail(ErrorClass::arg, quoted(launcher_variable::rank, rank_text) +
                                     " is not a rank (a whole number from 0)" + unset_hint);
  UniqueFd fetched;
  if (std::strchr(region_text, '/')) {
    auto from_socket = fetch_region(region_text, std::getenv(launcher_variable::key));
    if (!from_socket) return std::unexpected(std::move(from_socket).error());
    fetched = std::move(*from_socket);
  }
  const auto fd = fetched ? std::optional(static_cast<std::uint32_t>(fetched.get())) : parse(region_text);
  if (!fd || *fd > std::numeric_limits<int>::max())
    return fail(ErrorClass::arg, quoted(launcher_variable::region, region_text) +
                                     " is not the number of a file descriptor" + unset_hint);
  auto region = open_region(static_cast<int>(*fd));
  if (!region)
    return fail(region.error().error_class(),
                quoted(launcher_variable::region, region_text) + ": " + region.error().text());
  static_cast<void>(fetched.leak());  // the region's now
  if (*rank >= region->view.slots())
    return fail(ErrorClass::arg, quoted(launcher_variable::rank, rank_text) +
                                     " is not a rank of the job: it has " +
                                     std::to_string(region->view.slots()) + " ranks, from 0");
  Job job = make_job(*rank, false, std::move(*region));
  ISTHMUS_TRY(enter_roster(job, probe));
  ::unsetenv(launcher_variable::rank);
  ::unsetenv(launcher_variable::region);
  ::unsetenv(launcher_variable::key);
  return job;
}

/// Hardware threads that this process may run on.
std::uint32_t usable_threads() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint32_t>(CPU_COUNT(&set));
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);  // more than CPU_SETSIZE of them
  return online > 0 ? static_cast<std::uint32_t>(online) : 1;
}

Result<SharedRegion> make_own_region(std::uint32_t ranks, wire::RingGeometry geometry,
                                     wire::IdlePolicy idle) {
  auto key = make_job_key();
  if (!key) return std::unexpected(std::move(key).error());
  const std::string host = host_name();
  const std::string name = std::string(program_invocation_short_name) + "." + std::to_string(::getpid());
  const std::uint32_t threads = usable_threads();
  return make_region(wire::RegionShape::of(ranks, geometry), {.key = *key,
                                                              .idle = idle,
                                                              .cores = threads,
                                                              .universe = std::max(ranks, threads),
                                                              .job = name.c_str(),
                                                              .host = host.c_str()});
}

Result<Job> join_alone(const Settings& settings, const Probe& probe) {
  const auto idle = settings.idle == IdleSetting::sleep ? wire::IdlePolicy::sleep : wire::IdlePolicy::spin;
  auto region = make_own_region(1, ring_geometry(settings, 1), idle);
  if (!region) return std::unexpected(std::move(region).error());
  unbind_place(region->view.block(0).place);
  Job job = make_job(0, true, std::move(*region));
  ISTHMUS_TRY(enter_roster(job, probe));
  return job;
}

}  // namespace

std::optional<std::uint32_t> Job::slot_of(std::uint32_t other) const noexcept {
  if (on_one_host()) return other;
  const auto found = std::ranges::lower_bound(members, other);
  if (found == members.end() || *found != other) return std::nullopt;
  return static_cast<std::uint32_t>(found - members.begin());
}

Result<Job> join(const Settings& settings, const Probe& probe) {
  const char* rank = std::getenv(launcher_variable::rank);
  const char* region = std::getenv(launcher_variable::region);
  return rank || region ? join_launched(rank, region, probe) : join_alone(settings, probe);
}

Result<std::vector<Job>> local_jobs(std::uint32_t ranks, wire::RingGeometry geometry, wire::IdlePolicy idle) {
  auto region = make_own_region(ranks, geometry, idle);
  if (!region) return std::unexpected(std::move(region).error());
  std::vector<Job> jobs;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    unbind_place(region->view.block(rank).place);
    UniqueFd fd = rank == 0 ? std::move(region->fd) : UniqueFd{};
    jobs.push_back(make_job(rank, false, SharedRegion{std::move(fd), region->mapping, region->view}));
    jobs.back().in_process = true;
    ISTHMUS_TRY(enter_roster(jobs.back(), {}));
  }
  return jobs;
}

}  // namespace isthmus::launch
