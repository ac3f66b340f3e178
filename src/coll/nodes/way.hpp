#pragma once

#include <bit>

namespace isthmus::coll {

/// The way of segments from domain to domain. A chain sends each of them once from each domain, but the last
/// domain waits for one segment's time for each domain before it; a binomial tree has short ways, and its
/// root sends everything several times.
class Way {
 public:
  Way(int domains, int own, int top, int segments)
      : domains_(domains),
        top_(top),
        position_((own - top + domains) % domains),
        chain_(segments + domains - 2 <=
               segments * static_cast<int>(std::bit_width(static_cast<unsigned>(domains - 1)))) {}

  [[nodiscard]] bool at_top() const { return position_ == 0; }
  [[nodiscard]] int parent() const { return domain(chain_ ? position_ - 1 : position_ & (position_ - 1)); }
  template <class Visit>
  void for_children(Visit visit) const {
    if (chain_) {
      if (position_ + 1 < domains_) visit(domain(position_ + 1));
      return;
    }
    const int reach =
        at_top() ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(domains_))) : position_ & -position_;
    for (int distance = reach / 2; distance > 0; distance /= 2)
      if (position_ + distance < domains_) visit(domain(position_ + distance));
  }

 private:
  [[nodiscard]] int domain(int position) const { return (position + top_) % domains_; }

  int domains_, top_, position_;
  bool chain_;
};

}  // namespace isthmus::coll
