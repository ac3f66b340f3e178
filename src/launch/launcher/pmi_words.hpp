#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What PMI-1 and PMI-2 have in common in their messages: words `name=value` between separators.
namespace isthmus::launch {

/// The value of `name` in `text`, whose words end at `separator`.
std::optional<std::string_view> pmi_word(std::string_view text, char separator, std::string_view name);

/// The number that is the value of `name`; -1 where there is none.
std::int32_t pmi_number(std::string_view text, char separator, std::string_view name);

/// What a launcher has said, as it fits into a sentence: quoted, short and printable.
std::string pmi_shown(std::string_view text);

/// The key of part `part` of a value.
std::string pmi_key(std::uint32_t rank, std::string_view key, std::size_t part);

}  // namespace isthmus::launch
