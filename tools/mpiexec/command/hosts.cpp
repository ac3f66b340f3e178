#include "command/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/whole_number.hpp"
#include "command/words.hpp"
#include "launch/region/shared_region.hpp"
#include "wire/region.hpp"

namespace isthmus::mpiexec {
namespace {

std::expected<HostSlots, std::string> parse_host(std::string_view text) {
  // The last colon, and none of an IPv6 address, whose slots come behind "]:".
  const std::size_t colon = text.rfind(':');
  const bool has_slots =
      colon != std::string_view::npos && (text.find(':') == colon || text[colon - (colon > 0)] == ']');
  HostSlots host{.name = std::string(text.substr(0, has_slots ? colon : text.size())), .slots = 1};
  if (host.name.starts_with('[') && host.name.ends_with(']'))
    host.name = host.name.substr(1, host.name.size() - 2);
  if (host.name.empty() || host.name.starts_with('-'))
    return std::unexpected(fmt::format("'{}' is not the name of a host", text));
  if (!has_slots) return host;
  host.slots = whole_number<std::uint32_t>(text.substr(colon + 1)).value_or(0);
  if (host.slots == 0 || host.slots > wire::maximum_local_ranks)
    return std::unexpected(
        fmt::format("'{}': slots are a whole number from 1 to {}", text, wire::maximum_local_ranks));
  return host;
}

}  // namespace

std::expected<std::vector<HostSlots>, std::string> parse_hosts(const std::string& list) {
  std::vector<HostSlots> hosts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    auto host = parse_host(std::string_view(list).substr(begin, end - begin));
    if (!host) return std::unexpected(host.error());
    hosts.push_back(std::move(*host));
    begin = end + 1;
  }
  return hosts;
}

std::expected<std::vector<HostSlots>, std::string> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
  std::vector<HostSlots> hosts;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto words = split_words(line.substr(0, line.find('#')));
    if (words && words->empty()) continue;
    std::string text = words ? words->front() : line;
    if (words)
      for (std::size_t i = 1; i < words->size(); ++i)
        if ((*words)[i].starts_with("slots=")) text += ':' + (*words)[i].substr(6);
    auto host = parse_host(text);
    if (!host) return std::unexpected(fmt::format("{}, line {}: {}", path, number, host.error()));
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty()) return std::unexpected(fmt::format("{} names no host", path));
  return hosts;
}

bool is_here(const std::string& name) {
  const std::string here = launch::host_name();
  return name == "localhost" || name == "127.0.0.1" || name == here || name == here.substr(0, here.find('.'));
}

std::vector<std::uint32_t> deal_ranks(const std::vector<HostSlots>& hosts, std::uint32_t ranks) {
  std::uint64_t slots = 0;
  for (const HostSlots& host : hosts)
    slots += host.slots;
  const std::uint64_t rounds = std::max<std::uint64_t>(1, ranks / slots);
  std::vector<std::uint32_t> dealt;
  std::uint64_t left = ranks;
  for (const HostSlots& host : hosts) {
    dealt.push_back(static_cast<std::uint32_t>(std::min(left, rounds * host.slots)));
    left -= dealt.back();
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % hosts.size()) {  // less than a round
    const std::uint64_t more = std::min<std::uint64_t>(left, hosts[i].slots);
    dealt[i] += static_cast<std::uint32_t>(more);
    left -= more;
  }
  return dealt;
}

std::vector<Part> share_of(const std::vector<Part>& parts, std::uint32_t first, std::uint32_t count) {
  std::vector<Part> share;
  std::uint32_t begin = 0;
  for (const Part& part : parts) {
    const std::uint32_t end = begin + part.ranks.value_or(1);
    const std::uint32_t low = std::max(begin, first);
    const std::uint32_t high = std::min(end, first + count);
    if (low < high) {
      share.push_back(part);
      share.back().ranks = high - low;
    }
    begin = end;
  }
  return share;
}

std::string process_mapping(const std::vector<std::uint32_t>& ranks_by_host) {
  std::string text = "(vector";
  for (std::size_t i = 0; i < ranks_by_host.size();) {
    std::size_t end = i;
    while (end < ranks_by_host.size() && ranks_by_host[end] == ranks_by_host[i])
      ++end;
    if (ranks_by_host[i] > 0) text += fmt::format(",({},{},{})", i, end - i, ranks_by_host[i]);
    i = end;
  }
  return text + ")";
}

}  // namespace isthmus::mpiexec
