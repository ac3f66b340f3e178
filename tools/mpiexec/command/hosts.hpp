#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "command/options.hpp"

namespace isthmus::mpiexec {

/// "a,b:4": a name takes as many ranks as there are slots behind it, else one, before any gets more.
std::expected<std::vector<HostSlots>, std::string> parse_hosts(const std::string& list);
/// A host a line: "NAME", "NAME:SLOTS" or "NAME slots=SLOTS"; what follows a '#' is left out.
std::expected<std::vector<HostSlots>, std::string> read_hostfile(const std::string& path);

/// Whether `name` is this host.
bool is_here(const std::string& name);

/// How many ranks each host gets: its slots, and where there are more ranks than slots, in their proportion.
std::vector<std::uint32_t> deal_ranks(const std::vector<HostSlots>& hosts, std::uint32_t ranks);

/// The ranks `first` to `first + count - 1` of all parts: those parts with ranks among them.
std::vector<Part> share_of(const std::vector<Part>& parts, std::uint32_t first, std::uint32_t count);

/// "(vector,(0,2,4),(2,1,3))": two hosts from 0 with 4 ranks each, then one with 3.
std::string process_mapping(const std::vector<std::uint32_t>& ranks_by_host);

}  // namespace isthmus::mpiexec
