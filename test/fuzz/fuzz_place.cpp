// Place::decode on whatever stands in a launcher's key-value space: it takes only what it would have written.
#include <cstdlib>
#include <string_view>

#include "place/place.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto place = isthmus::Place::decode({reinterpret_cast<const char*>(data), size});
  if (!place) return 0;
  const auto again = isthmus::Place::decode(place->encode());
  if (!again || again->nonce != place->nonce || again->host != place->host ||
      again->cpus.size() != place->cpus.size())
    std::abort();
  return 0;
}
