#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "wire/region.hpp"

/// How a region's descriptor comes into a container that can inherit none: the launcher listens on a UNIX
/// socket in a folder that both see, a rank sends the 16 bytes of the job's key, and the answer is
/// one byte with the descriptor (SCM_RIGHTS), or the end of the connection. This works for every mix of
/// namespaces and users (FACTS: containers on one host).
namespace isthmus::launch {

/// Longest path that a UNIX socket's address can hold, with its zero.
inline constexpr std::size_t longest_socket_path = 108;

/// 32 hexadecimal digits.
std::string key_text(const wire::JobKey& key);
std::optional<wire::JobKey> parse_key(std::string_view text);

/// Asks the socket at `path` for the region of the job with `key`, as ISTHMUS_REGION and ISTHMUS_KEY have
/// them (null: not set). Waits at most 10 s for each step. The descriptor is close-on-exec.
Result<UniqueFd> fetch_region(const char* path, const char* key);

/// The launcher's side: answers on `connection`, which has shown the key.
bool hand_over(int connection, int region);

}  // namespace isthmus::launch
