#include "launch/meeting/meeting.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/system/open_files.hpp"
#include "base/whole_number.hpp"
#include "launch/region/device.hpp"
#include "launch/visit/broker.hpp"
#include "wire/roster.hpp"

namespace isthmus::launch {
namespace {

using Ranks = std::vector<std::uint32_t>;

constexpr std::string_view place_key = "place";
constexpr std::string_view verdict_key = "met";
constexpr std::string_view segment_key = "segment";
constexpr std::string_view device_key = "device";
constexpr std::string_view founded = "founded";
constexpr const char* shm_folder = "/dev/shm";

/// Without so many a visitor may wait for who cannot take up its visit: with up to 9 left, for a minute.
constexpr unsigned fewest_files = 16;

/// How long members may take from the last fence to their slots. They do nothing else in between.
constexpr auto settling_time = std::chrono::seconds(60);

std::string list(const Ranks& ranks) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < most; ++i)
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
  return text;
}

UniqueFd duplicate(const UniqueFd& fd) {
  return UniqueFd(fd ? ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0) : -1);
}

class Meeting {
 public:
  Meeting(KeyValues& launcher, const Settings& settings, Place mine, std::shared_ptr<Device> device,
          std::optional<SharedRegion> inherited, std::span<const Way> ways)
      : launcher_(launcher),
        settings_(settings),
        ways_(ways),
        rank_(launcher.rank()),
        job_(launcher.job()),
        mine_(std::move(mine)),
        device_(std::move(device)),
        inherited_(std::move(inherited)) {}

  Result<Met> hold();

 private:
  /// Processes of one kernel, or of several that have one device.
  struct Group {
    Ranks ranks;
    bool in_device = false;    ///< they meet in the region that the first of them has founded there
    bool one_region = true;    ///< all have inherited the same one
    bool some_region = false;  ///< some have inherited one
    bool one_network = true;   ///< all are known to share a network namespace
    bool some_folder = false;
    [[nodiscard]] bool meets() const { return ranks.size() > 1 && !one_region; }
  };

  Result<> exchange();
  Result<> found_in_devices();
  [[nodiscard]] std::string group_of(const Place& place) const;
  [[nodiscard]] const Group& group() const { return groups_.at(group_of(mine_)); }
  [[nodiscard]] wire::JobKey key() const { return places_[group().ranks.front()].key; }
  void form_groups();
  [[nodiscard]] Result<std::unique_ptr<Broker>> open_broker() const;
  Result<SharedRegion> enter_or_found();
  Result<SharedRegion> enter(std::uint32_t rank);
  Result<SharedRegion> enter_device();
  [[nodiscard]] wire::RegionShape shape() const;
  [[nodiscard]] wire::RegionView::Format format(const wire::JobKey& key) const;
  void describe_machines(const Met& met) const;
  [[nodiscard]] bool needs_segment() const;
  Result<> make_segment();
  void leave_segment();
  Result<> take_slot(Met& met);
  Result<> wait_for_members(const Met& met) const;
  Result<bool> all_content(const Met& met);
  Result<Met> take_inherited();
  Result<Met> stay_as_before();
  [[nodiscard]] bool crowded() const;
  void add_refusals(Met& met);
  [[nodiscard]] std::string explain_distance(const Place& other) const;
  void warn_of_distance(const Met& met) const;

  KeyValues& launcher_;
  const Settings& settings_;
  const std::span<const Way> ways_;
  const std::uint32_t rank_;
  const std::string job_;
  Place mine_;
  const std::shared_ptr<Device> device_;
  std::optional<SharedRegion> inherited_;
  std::vector<Place> places_;  ///< by rank
  std::map<std::string, Group> groups_;
  std::set<std::string> devices_;                      ///< in which a region has been founded
  std::map<std::string, std::string> failed_devices_;  ///< in which none could be, and why
  std::vector<Refusal> tried_;
  std::optional<SharedRegion> founded_;  ///< in the device
  std::optional<SharedRegion> segment_;  ///< made before the meeting, for the case that it is founded here
};

Result<> Meeting::exchange() {
  ISTHMUS_TRY(launcher_.put(place_key, mine_.encode()));
  ISTHMUS_TRY(launcher_.fence());
  places_.reserve(launcher_.size());
  for (std::uint32_t rank = 0; rank < launcher_.size(); ++rank) {
    const auto text = launcher_.get(rank, place_key);
    if (!text)
      return fail(text.error().error_class(), "rank " + std::to_string(rank) +
                                                  " has not published where it runs (is ISTHMUS_LOCALITY the "
                                                  "same for all ranks?): " +
                                                  text.error().text());
    auto place = Place::decode(*text);
    if (!place)
      return fail(place.error().error_class(),
                  "what rank " + std::to_string(rank) +
                      " has published about where it runs is not understood: " + place.error().text());
    places_.push_back(std::move(*place));
  }
  return {};
}

/// Where several kernels have one device, the lowest of its ranks founds a region in it. Collective.
Result<> Meeting::found_in_devices() {
  std::map<std::string, Ranks> users;
  for (std::uint32_t rank = 0; rank < places_.size(); ++rank)
    if (!places_[rank].device.empty()) users[places_[rank].device].push_back(rank);
  std::erase_if(users, [this](const auto& entry) {
    return std::ranges::all_of(entry.second,
                               [&](auto r) { return places_[r].boot == places_[entry.second.front()].boot; });
  });
  if (users.empty()) return {};
  for (const auto& [device, ranks] : users) {
    if (ranks.front() != rank_) continue;
    const auto slots = static_cast<std::uint32_t>(ranks.size());
    auto region = device_->found(slots, static_cast<std::uint32_t>(places_.size()),
                                 ring_geometry(settings_, slots), format(mine_.key));
    ISTHMUS_TRY(launcher_.put(device_key, region ? std::string(founded) : region.error().text()));
    if (region) founded_ = std::move(*region);
  }
  ISTHMUS_TRY(launcher_.fence());
  for (const auto& [device, ranks] : users) {
    const auto verdict = launcher_.get(ranks.front(), device_key);
    if (!verdict) return fail(verdict.error().error_class(), verdict.error().text());
    if (*verdict == founded) {
      devices_.insert(device);
      continue;
    }
    failed_devices_.emplace(device, *verdict);
    if (ranks.front() == rank_ && settings_.warn)
      warn("ranks " + list(ranks) + " run in virtual machines with the same ivshmem device, " +
           device_->name() + ", but cannot meet in it: " + *verdict +
           "; messages between the machines take "
           "the network");
  }
  return {};
}

std::string Meeting::group_of(const Place& place) const {
  if (devices_.contains(place.device)) return place.device;
  return {reinterpret_cast<const char*>(place.boot.data()), place.boot.size()};
}

void Meeting::form_groups() {
  for (std::uint32_t rank = 0; rank < places_.size(); ++rank) {
    const Place& place = places_[rank];
    Group& group = groups_[group_of(place)];
    group.in_device = devices_.contains(place.device);
    const Place& first = group.ranks.empty() ? place : places_[group.ranks.front()];
    group.ranks.push_back(rank);
    group.one_region = group.one_region && place.has_region() && place.region == first.region;
    group.some_region = group.some_region || place.has_region();
    group.one_network = group.one_network && place.shares(Namespace::net, first);
    group.some_folder = group.some_folder || place.has_folder;
  }
}

/// Listens wherever others may look, and leaves no file where nobody needs it. Collective.
Result<std::unique_ptr<Broker>> Meeting::open_broker() const {
  auto broker = Broker::open(mine_.socket, rank_);
  if (!broker)
    return fail(broker.error().error_class(), "cannot meet other processes: " + broker.error().text());
  return broker;
}

Result<Met> Meeting::hold() {
  auto broker = open_broker();
  if (!broker) return std::unexpected(std::move(broker).error());
  ISTHMUS_TRY(exchange());
  ISTHMUS_TRY(found_in_devices());
  form_groups();
  const Group& group = this->group();
  // Fences are for all processes of the job, so what all groups need counts, not what this one does.
  const auto any = [this](auto predicate) {
    return std::ranges::any_of(groups_, [&](const auto& entry) { return predicate(entry.second); });
  };
  if (!any([](const Group& g) { return g.meets(); })) return stay_as_before();
  if (any([](const Group& g) { return g.meets() && !g.in_device && (!g.one_network || g.some_folder); })) {
    if (group.meets() && !group.in_device) {
      if (!settings_.rendezvous_dir.empty())
        if (auto opened = (*broker)->open_folder(settings_.rendezvous_dir); !opened)
          return fail(ErrorClass::arg, "ISTHMUS_RENDEZVOUS_DIR='" + settings_.rendezvous_dir +
                                           "' is no folder to meet in: " + opened.error().text());
      [[maybe_unused]] const auto opened = (*broker)->open_folder(shm_folder);  // who looks in vain tells why
      ISTHMUS_TRY(make_segment());
    }
    ISTHMUS_TRY(launcher_.fence());
  }
  std::optional<Met> met;
  if (group.meets()) {
    (*broker)->admit(key());
    auto region = enter_or_found();
    if (!region) return std::unexpected(std::move(region).error());
    if (region->fd)
      (*broker)->offer_region(duplicate(region->fd), duplicate(region->box));
    else
      (*broker)->offer_nothing();
    region->view.roster(rank_).store(wire::RosterState::met, std::memory_order_release);
    met = Met{.region = std::move(*region)};
  } else {
    auto stayed = stay_as_before();
    if (!stayed) return stayed;
    met = std::move(*stayed);
  }
  ISTHMUS_TRY(launcher_.fence());
  broker->reset();
  if (group.meets()) {
    ISTHMUS_TRY(take_slot(*met));
    add_refusals(*met);
  }
  if (any([](const Group& g) { return g.meets() && g.some_region; })) {
    auto content = all_content(*met);
    if (!content) return std::unexpected(std::move(content).error());
    if (!*content) return stay_as_before();
  }
  if (group.meets()) warn_of_distance(*met);
  return std::move(*met);
}

Result<SharedRegion> Meeting::enter_or_found() {
  if (group().in_device) return enter_device();
  const Ranks& candidates = group().ranks;
  for (auto next = candidates.begin(); *next < rank_; ++next)
    if (auto region = enter(*next)) {
      leave_segment();
      return region;
    }
  if (segment_) return std::move(*segment_);
  return make_region(shape(), format(key()));
}

/// The memory, or a region of its own for a process that finds another job's memory there, or none: its
/// machine may be a copy of another.
Result<SharedRegion> Meeting::enter_device() {
  if (founded_) return std::move(*founded_);
  auto region = device_->enter(key());
  if (region && region->view.world() == places_.size() && region->view.slots() >= group().ranks.size())
    return region;
  tried_.push_back(
      {group().ranks.front(), "ivshmem device " + device_->name() + ": " +
                                  (region ? "a region of a job of another size" : region.error().text())});
  return make_region(shape(), format(key()));
}

Result<SharedRegion> Meeting::enter(std::uint32_t rank) {
  const wire::JobKey key = this->key();
  int segment = -1;
  if (mine_.shares(Namespace::ipc, places_[rank]) && !mine_.shares(Namespace::net, places_[rank]))
    if (const auto text = launcher_.get(rank, segment_key)) segment = whole_number<int>(*text).value_or(-1);
  std::string reasons;
  for (const Way& way : ways_) {
    auto region = way.enter({mine_, places_[rank], rank_, key, settings_, rank, segment});
    if (region && region->view.world() == places_.size()) return region;
    reasons += (reasons.empty() ? "" : "; ") + std::string(way.name) + ": " +
               (region ? "a region of a job of another size" : region.error().text());
  }
  tried_.push_back({rank, reasons});
  return fail(ErrorClass::other, std::move(reasons));
}

/// Whether a System V segment may be the only memory that this process can have in common with others: it has
/// no descriptor that could be handed over, so whoever comes through a socket would come in vain.
bool Meeting::needs_segment() const {
  bool wanted = false;
  for (const std::uint32_t rank : group().ranks) {
    const Place& other = places_[rank];
    const bool ipc = mine_.shares(Namespace::ipc, other);
    if (rank == rank_) continue;
    if (mine_.shares(Namespace::net, other) || (mine_.has_folder && other.has_folder) ||
        (mine_.shm != 0 && mine_.shm == other.shm) || (ipc && rank < rank_))
      return false;
    wanted = wanted || ipc;
  }
  return wanted;
}

/// Publishes the segment's id: that it has none, too, because a launcher may wait for a key that nobody puts.
Result<> Meeting::make_segment() {
  int id = -1;
  if (needs_segment())
    if (auto made = make_segment_region(shape(), format(key()))) {
      id = made->segment;
      segment_ = std::move(made->region);
    }
  return launcher_.put(segment_key, std::to_string(id));
}

void Meeting::leave_segment() {
  if (!segment_) return;
  segment_->view.roster(rank_).store(wire::RosterState::finalized, std::memory_order_release);
  segment_.reset();
}

/// Slots for this process and the candidates of higher rank.
wire::RegionShape Meeting::shape() const {
  const Ranks& candidates = group().ranks;
  const auto slots =
      static_cast<std::uint32_t>(candidates.end() - std::ranges::lower_bound(candidates, rank_));
  return wire::RegionShape::of(slots, static_cast<std::uint32_t>(places_.size()),
                               ring_geometry(settings_, slots));
}

wire::RegionView::Format Meeting::format(const wire::JobKey& key) const {
  const std::int32_t universe = launcher_.universe();
  return {.key = key,
          .universe = universe > 0 ? static_cast<std::uint32_t>(universe)
                                   : static_cast<std::uint32_t>(places_.size()),
          .job = job_.c_str(),
          .host = mine_.host.c_str()};
}

/// Reads off the roster who is here and in which order.
Result<> Meeting::take_slot(Met& met) {
  const wire::RegionView& region = met.region.view;
  const wire::Roster roster(region.roster());
  met.members = roster.members();
  const auto position = roster.position(rank_);
  const Ranks& candidates = group().ranks;
  if (!position || met.members.size() > region.slots() || !std::ranges::includes(candidates, met.members))
    return fail(ErrorClass::intern, "the roster of this host names ranks " + list(met.members) +
                                        ", which cannot be: something else writes to the shared region");
  met.slot = *position;
  wire::PlaceRecord& record = region.block(met.slot).place;
  record.package = mine_.package;
  record.numa = mine_.numa;
  record.core = mine_.core;
  record.appnum = std::max(launcher_.appnum(), 0);
  publish(record, mine_, rank_);
  if (met.slot == 0) describe_machines(met);
  region.roster(rank_).store(wire::RosterState::joined, std::memory_order_release);
  return wait_for_members(met);
}

/// How many cores the members have together, and how they are to wait.
void Meeting::describe_machines(const Met& met) const {
  std::map<std::array<std::uint8_t, 16>, CpuSet> machines;
  for (const std::uint32_t member : met.members)
    machines[places_[member].boot] |= places_[member].cpus;
  std::size_t cores = 0;
  for (const auto& [boot, cpus] : machines)
    cores += cpus.size();
  wire::RegionHeader& header = met.region.view.header();
  header.cores = static_cast<std::uint32_t>(std::max<std::size_t>(cores, 1));
  const bool sleeps =
      settings_.idle == IdleSetting::sleep ||
      (settings_.idle == IdleSetting::automatic && (header.cores < met.members.size() || crowded()));
  header.idle = !met.region.device.empty() ? wire::IdlePolicy::nap
                : sleeps                   ? wire::IdlePolicy::sleep
                                           : wire::IdlePolicy::spin;
}

/// Until all have written their records. A nonce that is the published one proves that its writer shares this
/// memory; kernels can have equal boot ids, as clones of a virtual machine do.
Result<> Meeting::wait_for_members(const Met& met) const {
  const wire::RegionView& region = met.region.view;
  const auto deadline = std::chrono::steady_clock::now() + settling_time;
  for (std::uint32_t slot = 0; slot < met.members.size(); ++slot) {
    const std::uint32_t member = met.members[slot];
    while (region.roster(member).load(std::memory_order_acquire) == wire::RosterState::met) {
      if (std::chrono::steady_clock::now() > deadline)
        return fail(ErrorClass::other,
                    "rank " + std::to_string(member) +
                        " has met this process, but does not take its place: has it ended?");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    const wire::PlaceRecord& record = region.block(slot).place;
    if (record.rank != member || record.nonce != places_[member].nonce)
      return fail(ErrorClass::intern, "what stands in the shared memory for rank " + std::to_string(member) +
                                          " is not what it has published: it was not that rank who wrote it");
  }
  return {};
}

/// Whether all processes of this kernel are better off than with the regions that they have inherited.
/// Collective.
Result<bool> Meeting::all_content(const Met& met) {
  bool content = true;
  if (inherited_ && !met.inherited) {
    auto before = inherited_members(inherited_->view);
    if (!before) return std::unexpected(std::move(before).error());
    content = std::ranges::includes(met.members, *before);
  }
  ISTHMUS_TRY(launcher_.put(verdict_key, content ? "1" : "0"));
  ISTHMUS_TRY(launcher_.fence());
  for (const std::uint32_t rank : group().ranks) {
    const auto verdict = launcher_.get(rank, verdict_key);
    if (!verdict) return fail(verdict.error().error_class(), verdict.error().text());
    if (*verdict != "1") return false;
  }
  return true;
}

/// With those who have inherited the same region, or with nobody.
Result<Met> Meeting::stay_as_before() {
  Result<Met> met = inherited_ ? take_inherited() : stay_alone(launcher_, settings_, mine_);
  if (!met) return met;
  // Whoever made the region may have seen only some of those who work on its cores. All members say the same.
  if (settings_.idle == IdleSetting::automatic && crowded())
    std::atomic_ref(met->region.view.header().idle).store(wire::IdlePolicy::sleep);
  if (!met->inherited) add_refusals(*met);
  return met;
}

/// Whether the job's processes on this kernel, in whatever region or container, are more than the cores that
/// they may use.
bool Meeting::crowded() const {
  CpuSet cpus;
  std::size_t here = 0;
  for (const Place& place : places_)
    if (place.boot == mine_.boot) {
      cpus |= place.cpus;
      ++here;
    }
  return cpus.size() < here;
}

Result<Met> Meeting::take_inherited() {
  auto members = inherited_members(inherited_->view);
  if (!members) return std::unexpected(std::move(members).error());
  const auto found = std::ranges::lower_bound(*members, rank_);
  if (found == members->end() || *found != rank_)
    return fail(ErrorClass::arg, "the region that this process has inherited is not for rank " +
                                     std::to_string(rank_) + ", but for ranks " + list(*members));
  Met met{.region = std::move(*inherited_),
          .slot = static_cast<std::uint32_t>(found - members->begin()),
          .members = std::move(*members),
          .inherited = true};
  add_refusals(met);
  return met;
}

void Meeting::add_refusals(Met& met) {
  for (const std::uint32_t rank : group().ranks) {
    if (std::ranges::binary_search(met.members, rank)) continue;
    const auto tried = std::ranges::find(tried_, rank, &Refusal::rank);
    met.refusals.push_back({rank, tried != tried_.end() ? tried->text : explain_distance(places_[rank])});
  }
  const auto failed = failed_devices_.find(mine_.device);
  if (failed == failed_devices_.end()) return;
  for (std::uint32_t rank = 0; rank < places_.size(); ++rank)
    if (places_[rank].device == mine_.device && places_[rank].boot != mine_.boot)
      met.refusals.push_back(
          {rank, "it is in another virtual machine, and the ivshmem device that both have is of no use: " +
                     failed->second});
}

std::string Meeting::explain_distance(const Place& other) const {
  if (group().in_device)
    return "it is in another virtual machine, and has not met this process in their ivshmem device";
  if (mine_.shares(Namespace::net, other))
    return "it is in the network namespace of this process, but has met others";
  if (!mine_.has_folder || !other.has_folder)
    return "it shares no network namespace with this process, and ISTHMUS_RENDEZVOUS_DIR is not set for both";
  return "it shares no network namespace with this process, and its ISTHMUS_RENDEZVOUS_DIR is another folder";
}

/// Once a machine, by its lowest rank.
void Meeting::warn_of_distance(const Met& met) const {
  const Group& group = this->group();
  if (!settings_.warn || rank_ != group.ranks.front() || met.refusals.empty()) return;
  if (group.in_device) {
    warn(
        "ranks " + list(group.ranks) +
        " run in virtual machines with the same ivshmem device, but could not "
        "all meet in it; messages between those that share no memory take the network (isthmus explain tells "
        "more)");
    return;
  }
  const bool folders =
      std::ranges::all_of(group.ranks, [&](std::uint32_t r) { return places_[r].has_folder; });
  warn("ranks " + list(group.ranks) + " run on the same machine, but " +
       (group.one_network ? "could not all meet"
        : folders         ? "see different folders under ISTHMUS_RENDEZVOUS_DIR"
                          : "share neither a network namespace nor a folder") +
       (group.one_network ? "" : ": set ISTHMUS_RENDEZVOUS_DIR to a folder that all of them see") +
       "; messages between those that share no memory take the network (isthmus explain tells more)");
}

}  // namespace

Result<std::vector<std::uint32_t>> inherited_members(const wire::RegionView& region) {
  Ranks members(region.slots());
  for (std::uint32_t slot = 0; slot < region.slots(); ++slot)
    members[slot] = region.slots() == region.world() ? slot : region.block(slot).place.rank;
  for (std::uint32_t slot = 0; slot < members.size(); ++slot)
    if (members[slot] >= region.world() || (slot > 0 && members[slot] <= members[slot - 1]))
      return fail(ErrorClass::intern, "the inherited region has rank " + std::to_string(members[slot]) +
                                          " in slot " + std::to_string(slot) +
                                          ": ranks have to ascend within the job's " +
                                          std::to_string(region.world()));
  return members;
}

Result<Met> meet(KeyValues& launcher, const Settings& settings, Place mine,
                 std::optional<SharedRegion> inherited, std::span<const Way> ways) {
  if (!can_open_files(fewest_files))
    return std::unexpected(too_few_files(fewest_files, "meeting the other ranks needs"));
  mine.has_folder = !settings.rendezvous_dir.empty();
  if (inherited) mine.region = inherited->view.header().key;
  auto device = Device::find(settings);
  if (!device)
    return fail(ErrorClass::arg, "ISTHMUS_IVSHMEM='" + settings.ivshmem + "': " + device.error().text());
  if (*device) mine.device = (*device)->id();
  return Meeting(launcher, settings, std::move(mine), std::move(*device), std::move(inherited), ways).hold();
}

Result<Met> stay_alone(const KeyValues& launcher, const Settings& settings, const Place& mine) {
  const std::int32_t universe = launcher.universe();
  const std::string job(launcher.job());
  const bool sleeps = settings.idle == IdleSetting::sleep;
  auto region =
      make_region(wire::RegionShape::of(1, launcher.size(), ring_geometry(settings, 1)),
                  {.key = mine.key,
                   .idle = sleeps ? wire::IdlePolicy::sleep : wire::IdlePolicy::spin,
                   .cores = static_cast<std::uint32_t>(std::max<std::size_t>(mine.cpus.size(), 1)),
                   .universe = universe > 0 ? static_cast<std::uint32_t>(universe) : launcher.size(),
                   .job = job.c_str(),
                   .host = mine.host.c_str()});
  if (!region) return std::unexpected(std::move(region).error());
  wire::PlaceRecord& record = region->view.block(0).place;
  record.package = mine.package;
  record.numa = mine.numa;
  record.core = mine.core;
  record.appnum = std::max(launcher.appnum(), 0);
  publish(record, mine, launcher.rank());
  region->view.roster(launcher.rank()).store(wire::RosterState::joined, std::memory_order_release);
  return Met{.region = std::move(*region), .members = {launcher.rank()}};
}

void publish(wire::PlaceRecord& record, const Place& place, std::uint32_t rank) {
  record.rank = rank;
  record.pid = static_cast<std::int32_t>(place.pid);
  record.uid = place.uid;
  record.boot = place.boot;
  record.namespaces = place.namespaces;
  record.nonce = place.nonce;
}

}  // namespace isthmus::launch
