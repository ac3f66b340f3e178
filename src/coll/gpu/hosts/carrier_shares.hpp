#pragma once

#include <cstdint>
#include <vector>

#include "coll/call/even_cut.hpp"
#include "coll/gpu/hosts/across_hosts.hpp"

namespace isthmus::coll {

/// What each member of a host carries of `total` elements, as the arguments of collectives among them: the
/// carriers equal parts, the others nothing.
struct CarrierShares {
  CarrierShares(const AcrossHosts& all, std::int64_t total, std::int64_t grain) {
    const EvenCut cut(total, all.carriers(), grain);
    for (int i = 0; i < all.local().size(); ++i) {
      counts.push_back(i < all.carriers() ? cut.size(i) : 0);
      begins.push_back(i < all.carriers() ? cut.begin(i) : 0);
    }
  }

  std::vector<std::int64_t> counts, begins;
};

}  // namespace isthmus::coll
