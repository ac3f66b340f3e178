#include "chare/data/tag.hpp"

#include <fmt/format.h>

namespace isthmus::chare {

Result<Tags> Tags::make(const TagDivision& division, std::uint32_t processes) {
  if (processes > std::uint64_t{1} << division.source_bits)
    return fail(
        ErrorClass::arg,
        fmt::format("{} processes have no room in the {} bits that a tag has for them; give them more "
                    "with ISTHMUS_CHARE_TAG_BITS",
                    processes, division.source_bits));
  return Tags(division, processes);
}

Result<TagParts> Tags::parts(std::uint64_t tag) const {
  const std::uint64_t type = tag >> (64 - division_.type_bits);
  const std::uint64_t source =
      (tag >> division_.counter_bits) & ((std::uint64_t{1} << division_.source_bits) - 1);
  if (type == 0 || type > static_cast<std::uint32_t>(last_tag_type))
    return fail(ErrorClass::other, fmt::format("there is no tag of type {}", type));
  if (source >= processes_)
    return fail(ErrorClass::other,
                fmt::format("a tag names process {} of {} as its source", source, processes_));
  return TagParts{static_cast<TagType>(type), static_cast<std::uint32_t>(source), tag & counter_mask()};
}

}  // namespace isthmus::chare
