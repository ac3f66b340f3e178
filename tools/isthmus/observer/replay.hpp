#pragma once

#include <vector>

#include "observer/observer.hpp"

namespace isthmus::observer {

/// Has the processes exchange again what they have exchanged, of the same lengths with the same others, by
/// puts that are prepared (<isthmus/stream.hpp>) on a stream with nothing else. Collective over
/// MPI_COMM_WORLD: all measure, or none, and then each says why. `device`: -1 where the program has used
/// none.
[[nodiscard]] Replayed replay(const std::vector<ExchangeRecord>& exchanges, int device, int rank, int size);

}  // namespace isthmus::observer
