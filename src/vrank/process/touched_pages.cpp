#include "vrank/process/touched_pages.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace isthmus::vrank {

TouchedPages::TouchedPages() : file_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}

void TouchedPages::look(std::uint64_t begin, std::span<bool> touched) const noexcept {
  constexpr std::uint64_t is_present = std::uint64_t{1} << 63, is_swapped = std::uint64_t{1} << 62;
  std::array<std::uint64_t, most_pages> entries{};
  const std::size_t bytes = touched.size() * sizeof(std::uint64_t);
  const ssize_t got =
      ::pread(file_.get(), entries.data(), bytes, static_cast<off_t>(begin / page * sizeof(std::uint64_t)));
  for (std::size_t i = 0; i < touched.size(); ++i)
    touched[i] = got != static_cast<ssize_t>(bytes) || (entries[i] & (is_present | is_swapped)) != 0;
}

}  // namespace isthmus::vrank
