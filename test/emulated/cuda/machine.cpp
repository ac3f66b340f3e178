#include "machine.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "settings.hpp"

namespace isthmus::emulated {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<unsigned> number(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Link link_named(std::string_view name) {
  if (name == "none") return Link::none;
  return name == "pcie" ? Link::pcie : Link::nvlink;
}

}  // namespace

Machine Machine::from_environment() {
  Machine machine;
  machine.devices_ = number(variable("DEVICES")).value_or(2);
  const std::string links = variable("LINKS");
  for (const std::string_view part : split(links, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos) {
      machine.link_ = link_named(part);
      continue;
    }
    const auto ends = split(part.substr(0, colon), '-');
    if (ends.size() == 2)
      machine.pairs_.push_back(
          {number(ends[0]).value_or(0), number(ends[1]).value_or(0), link_named(part.substr(colon + 1))});
  }
  const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!chosen) {
    for (unsigned i = 0; i < machine.devices_; ++i)
      machine.visible_.push_back(i);
    return machine;
  }
  // As the real driver does: the first that there is not ends the list; a UUID may be cut short.
  for (const std::string_view part : split(chosen, ',')) {
    std::optional<unsigned> device = number(part);
    if (part.starts_with("GPU-"))
      for (unsigned i = 0; i < machine.devices_ && !device; ++i)
        if (uuid_text(i).starts_with(part)) device = i;
    if (!device || *device >= machine.devices_) break;
    machine.visible_.push_back(*device);
  }
  return machine;
}

std::optional<cuda::Device> Machine::ordinal(unsigned physical) const {
  const auto found = std::find(visible_.begin(), visible_.end(), physical);
  if (found == visible_.end()) return std::nullopt;
  return static_cast<cuda::Device>(found - visible_.begin());
}

Link Machine::link(unsigned from, unsigned to) const {
  for (const Pair& pair : pairs_)
    if ((pair.a == from && pair.b == to) || (pair.a == to && pair.b == from)) return pair.link;
  return link_;
}

cuda::Uuid Machine::uuid(unsigned physical) {
  cuda::Uuid uuid;
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i)
    uuid.bytes[i] = static_cast<std::uint8_t>(0x11 * (physical + 1) + 7 * i);
  return uuid;
}

std::string Machine::uuid_text(unsigned physical) {
  std::string text = "GPU";
  const cuda::Uuid id = uuid(physical);
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", id.bytes[i]);
    text += digits.data();
  }
  return text;
}

}  // namespace isthmus::emulated
