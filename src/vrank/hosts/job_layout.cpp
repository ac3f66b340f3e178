#include "vrank/hosts/job_layout.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "base/settings.hpp"
#include "base/whole_number.hpp"

namespace isthmus::vrank {
namespace {

/// The text up to `end`, which is taken off with it.
std::string_view take_until(std::string_view& text, char end) {
  const std::string_view word = text.substr(0, text.find(end));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

}  // namespace

Result<JobLayout> JobLayout::parse(std::string_view word, std::uint32_t world) {
  const auto senseless = [] {
    return fail(ErrorClass::arg, std::string(launcher_variable::migratable) + " makes no sense");
  };
  take_until(word, ':');
  const auto each = whole_number<std::uint32_t>(take_until(word, ':'));
  if (!each || *each == 0 || world == 0) return senseless();
  JobLayout layout;
  std::uint32_t rank = 0, host = 0;
  do {
    const auto here =
        word.empty() ? std::optional(world) : whole_number<std::uint32_t>(take_until(word, ','));
    if (!here || *here == 0 || *here > world - rank) return senseless();
    for (const std::uint32_t end = rank + *here; rank < end;) {
      const std::uint32_t count = std::min(*each, end - rank);
      layout.processes.push_back({rank, count, host});
      rank += count;
    }
    ++host;
  } while (!word.empty());
  if (rank != world) return senseless();
  layout.hosts = host;
  return layout;
}

const JobLayout::Process& JobLayout::process_of(std::uint32_t rank) const noexcept {
  return *(std::ranges::upper_bound(processes, rank, {}, &Process::first) - 1);
}

}  // namespace isthmus::vrank
