#include "facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace isthmus::tool {

void Section::add(std::string fact, Json value, std::string text) {
  std::string name = fact;
  std::ranges::replace(name, '_', ' ');
  add(std::move(fact), std::move(name), std::move(value), std::move(text));
}

void Section::add(std::string fact, std::string name, Json value, std::string text) {
  facts.push_back({std::move(fact), std::move(name), std::move(value), std::move(text)});
}

void print_text(const std::vector<Section>& sections) {
  for (const Section& section : sections) {
    fmt::print("{}{}\n", &section == sections.data() ? "" : "\n", section.title);
    for (const Fact& fact : section.facts)
      fmt::print("  {:<20}{}{}\n", fact.name, fact.name.size() < 20 ? "" : " ", fact.text);
  }
}

void print_json(const std::vector<Section>& sections) {
  Json all{{"isthmus_info", 1}};
  for (const Section& section : sections)
    for (const Fact& fact : section.facts)
      all[section.key][fact.key] = {{"value", fact.value}, {"text", fact.text}};
  fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "";
}

std::string bytes_text(std::uint64_t bytes) {
  const auto in = [bytes](unsigned shift) {
    return static_cast<double>(bytes) / static_cast<double>(1ULL << shift);
  };
  return bytes >= (1ULL << 30)   ? fmt::format("{:.3g} GiB", in(30))
         : bytes >= (1ULL << 20) ? fmt::format("{:.3g} MiB", in(20))
         : bytes >= (1ULL << 10) ? fmt::format("{:.3g} KiB", in(10))
                                 : fmt::format("{} B", bytes);
}

std::string plural(long count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace isthmus::tool
