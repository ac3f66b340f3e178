#pragma once

#include <string>

#include "base/error.hpp"
#include "wire/region.hpp"

namespace isthmus::cma {

/// Why the trial on a peer has ended in `error`, for the user: what the kernel has said, and behind it that
/// difference between the two processes which explains it best. A pid namespace comes first, because there
/// the kernel has spoken of a process that is not the peer.
[[nodiscard]] std::string explain_refusal(const Error& error, const wire::PlaceRecord& mine,
                                          const wire::PlaceRecord& theirs);

}  // namespace isthmus::cma
