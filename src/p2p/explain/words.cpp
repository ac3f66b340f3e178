#include "p2p/explain/words.hpp"

#include <fmt/format.h>

namespace isthmus {

std::string size_text(std::uint64_t bytes) {
  if (bytes == UINT64_MAX) return "any size";
  if (bytes >= (1U << 20) && bytes % (1U << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= (1U << 10) && bytes % (1U << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

std::string steps_text(const Plan& plan, std::size_t indent) {
  std::string text;
  for (const Step& step : plan.steps())
    text += fmt::format("{:{}}up to {:<9} {:<5} {}\n", "", indent, size_text(step.up_to),
                        name_of(step.channel), name_of(step.protocol));
  return text;
}

std::string kinds_text(const std::vector<MemoryKind>& kinds) {
  std::string text;
  for (const MemoryKind kind : kinds)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(kind));
  return text;
}

std::string full_name_of(Protocol way) {
  const bool is_across = way == Protocol::network_eager || way == Protocol::network_rendezvous;
  return fmt::format("{}{}", is_across ? "network, " : "", name_of(way));
}

std::string_view short_name_of(Protocol way) {
  constexpr std::string_view subject = "GPU memory, ";
  const std::string_view name = name_of(way);
  return name.starts_with(subject) ? name.substr(subject.size()) : name;
}

}  // namespace isthmus
