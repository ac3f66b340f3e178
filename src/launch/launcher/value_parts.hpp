#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

/// Values of any bytes and any length, in key-value spaces of launchers that take short texts only: 6 bits a
/// character, cut into parts, with the number of parts and a dot in front of the first.
namespace isthmus::launch {

/// At least one text of 1 to `longest` characters (`longest` at least 16), all of them letters, digits, '-',
/// '_' and '.'.
std::vector<std::string> to_parts(std::string_view value, std::size_t longest);

/// The value whose parts `part` tells, in order from 0.
Result<std::string> from_parts(const std::function<Result<std::string>(std::size_t)>& part);

}  // namespace isthmus::launch
