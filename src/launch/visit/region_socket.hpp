#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "launch/visit/visit.hpp"
#include "wire/region.hpp"

/// How a region's descriptor comes into a container that can inherit none: the launcher listens on a UNIX
/// socket in a folder that both see, a rank asks there, and both prove that they have the job's key
/// (`wire/visit.hpp`). This works for every mix of namespaces and users (FACTS: containers on one host).
namespace isthmus::launch {

/// 32 hexadecimal digits.
std::string key_text(const wire::JobKey& key);
std::optional<wire::JobKey> parse_key(std::string_view text);

/// Asks the socket at `path` for the region of the job with `key`, as ISTHMUS_REGION and ISTHMUS_KEY have
/// them (null: not set). Waits at most 10 s. The descriptors are close-on-exec.
Result<Handed> fetch_region(const char* path, const char* key);

}  // namespace isthmus::launch
