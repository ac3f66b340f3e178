#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "wire/region.hpp"

namespace isthmus::cma {

/// For the user.
struct Refusal {
  std::string text;
  std::string_view remedy;  ///< what would help; empty: nothing is known
};

/// What helps where two processes have the same pid, or cannot name each other.
inline constexpr std::string_view one_pid_namespace =
    "start the containers in one pid namespace (docker and podman: --pid=host)";

/// Why the trial on a peer has ended in `error`, for the user: what the kernel has said, and behind it that
/// difference between the two processes which explains it best. A pid namespace comes first, because there
/// the kernel has spoken of a process that is not the peer.
[[nodiscard]] Refusal explain_refusal(const Error& error, const wire::PlaceRecord& mine,
                                      const wire::PlaceRecord& theirs);

}  // namespace isthmus::cma
