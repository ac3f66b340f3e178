#include "memory/host_ranges.hpp"

#include <link.h>

#include <charconv>
#include <fstream>
#include <span>
#include <string>

namespace isthmus {
namespace {

struct Line {
  std::uintptr_t begin = 0, end = 0;
  bool is_writable = false;
  std::string name;
};

/// "55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0     [heap]"
Line parse(const std::string& text) {
  Line line;
  const char* const end = text.data() + text.size();
  const auto [dash, error] = std::from_chars(text.data(), end, line.begin, 16);
  if (error != std::errc{} || dash == end) return {};
  const auto [space, error_again] = std::from_chars(dash + 1, end, line.end, 16);
  if (error_again != std::errc{} || end - space < 4) return {};
  line.is_writable = space[2] == 'w';
  line.name = text.substr(text.rfind(' ') + 1);
  return line;
}

/// The writable segments of the program itself.
int program_data(dl_phdr_info* object, std::size_t, void* out) {
  auto ranges = *static_cast<std::span<std::pair<std::uintptr_t, std::uintptr_t>>*>(out);
  for (const auto& segment : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0 || ranges.empty()) continue;
    ranges.front() = {object->dlpi_addr + segment.p_vaddr, segment.p_memsz};
    ranges = ranges.subspan(1);
  }
  return 1;  // the first object is the program
}

}  // namespace

HostRanges::HostRanges() {
  std::array<std::pair<std::uintptr_t, std::uintptr_t>, 2> segments{};
  std::span<std::pair<std::uintptr_t, std::uintptr_t>> out(segments);
  dl_iterate_phdr(program_data, &out);
  for (std::size_t i = 0; i < segments.size(); ++i)
    data_[i] = {segments[i].first, segments[i].second};
  std::ifstream maps("/proc/self/maps");
  for (std::string text; std::getline(maps, text);) {
    const Line line = parse(text);
    if (line.name == "[stack]") stack_ = {line.begin, line.end - line.begin};
    if (line.name == "[heap]" && line.begin < heap_) heap_ = line.begin;
  }
  // A program that has not asked for memory yet.
  if (heap_ == UINTPTR_MAX) heap_ = reinterpret_cast<std::uintptr_t>(::sbrk(0));
}

}  // namespace isthmus
