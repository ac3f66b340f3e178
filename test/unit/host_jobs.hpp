#pragma once

#include <barrier>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "channel/network/port.hpp"
#include "launch/job.hpp"
#include "launch/launcher/key_values.hpp"

namespace isthmus::testing_ranks {

/// A launcher of ranks that are threads of one process.
class KeySpace {
 public:
  explicit KeySpace(std::uint32_t ranks) : ranks_(ranks), barrier_(ranks) {}

  /// What rank `rank` sees of it. Must not outlive the space.
  std::shared_ptr<launch::KeyValues> view(std::uint32_t rank);

 private:
  class View;
  const std::uint32_t ranks_;
  std::barrier<> barrier_;
  std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::string>, std::string> values_;
};

class KeySpace::View final : public launch::KeyValues {
 public:
  View(KeySpace& space, std::uint32_t rank)
      : KeyValues({.protocol = "threads", .rank = rank, .size = space.ranks_, .job = "test"}),
        space_(space) {}

  Result<> put(std::string_view key, std::string_view value) override {
    const std::scoped_lock lock(space_.mutex_);
    space_.values_[{rank(), std::string(key)}] = value;
    return {};
  }
  Result<> fence() override {
    space_.barrier_.arrive_and_wait();
    return {};
  }
  Result<std::string> get(std::uint32_t rank, std::string_view key) override {
    const std::scoped_lock lock(space_.mutex_);
    const auto found = space_.values_.find({rank, std::string(key)});
    if (found == space_.values_.end()) return fail(ErrorClass::intern, "no such key");
    return found->second;
  }
  [[noreturn]] void abort(int code, std::string_view) noexcept override { std::_Exit(code); }
  Result<> finalize() override { return {}; }

 private:
  KeySpace& space_;
};

inline std::shared_ptr<launch::KeyValues> KeySpace::view(std::uint32_t rank) {
  return std::make_shared<View>(*this, rank);
}

/// Why hosts cannot reach each other in this build (UCX is not there, or not under this sanitizer); empty
/// where they can.
inline const std::string& why_no_network() {
  class Deaf final : public network::Events {
    void arrived(network::PeerId, std::span<const std::byte>, std::span<const std::byte>) override {}
    void offered(network::PeerId, std::span<const std::byte>, std::uint64_t, network::OfferId) override {}
    void sent(network::Token, const Error*) override {}
    void fetched(network::Token, const Error*) override {}
    void lost(network::PeerId, const Error&) override {}
  };
  static const std::string why = []() -> std::string {
    Deaf deaf;
    const auto port = network::open({}, {0, 1}, deaf);
    return port || port.error().error_class() != ErrorClass::unsupported_operation ? "" : port.error().text();
  }();
  return why;
}

/// Jobs of `ranks` threads of this process, dealt out in turn to so many hosts: with more than one, each host
/// has a region of its own and the rest is reached over the network.
inline Result<std::vector<launch::Job>> host_jobs(std::uint32_t ranks, std::uint32_t hosts, KeySpace& space,
                                                  wire::RingGeometry geometry, wire::IdlePolicy idle) {
  if (hosts <= 1 || ranks == 1) return launch::local_jobs(ranks, geometry, idle);
  std::vector<std::vector<std::uint32_t>> members(hosts);
  std::vector<launch::SharedRegion> regions;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    members[rank % hosts].push_back(rank);
  for (std::uint32_t host = 0; host < hosts && host < ranks; ++host) {
    const auto slots = static_cast<std::uint32_t>(members[host].size());
    auto region = launch::make_region(wire::RegionShape::of(slots, ranks, geometry), {.idle = idle});
    if (!region) return std::unexpected(std::move(region).error());
    regions.push_back(std::move(*region));
  }
  std::vector<launch::Job> jobs;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const launch::SharedRegion& region = regions[rank % hosts];
    launch::Job& job = jobs.emplace_back(launch::Job{.rank = rank,
                                                     .size = ranks,
                                                     .singleton = false,
                                                     .in_process = true,
                                                     .slot = rank / hosts,
                                                     .members = members[rank % hosts],
                                                     .name = "test",
                                                     .host = "host" + std::to_string(rank % hosts),
                                                     .launcher = space.view(rank),
                                                     .region = region.view,
                                                     .mapping = region.mapping,
                                                     .region_fd = {}});
    wire::PlaceRecord& place = region.view.block(job.slot).place;
    place.rank = rank;
    place.pid = ::getpid();
    place.package = place.numa = place.core = -1;
    region.view.roster(rank).store(wire::RosterState::joined);
  }
  return jobs;
}

}  // namespace isthmus::testing_ranks
