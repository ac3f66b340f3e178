#pragma once

#include <cstddef>
#include <cstdint>

#include "datatype/checked.hpp"
#include "datatype/datatype.hpp"

namespace isthmus {

/// One regular part of a typemap: `count` blocks, `stride` bytes from start to start, of `blocklength`
/// consecutive elements of `type`. Every constructor comes down to these (MPI 5.0, section 5.1.2).
struct Placement {
  Checked displacement;
  std::int64_t count;
  Checked stride;
  std::int64_t blocklength;
  const Datatype* type;
};

/// Reads the arguments of a constructor, whichever form they came in.
class Arguments {
 public:
  explicit Arguments(const Contents& contents) : contents_(contents), large_(contents.form == Form::large) {}

  /// The i-th of those that are counts in the large form and integers in the small one.
  [[nodiscard]] std::int64_t count(std::size_t i) const {
    return large_ ? contents_.large_counts[i] : contents_.integers[i];
  }
  /// The i-th displacement, which follows `counts_before` counts in the large form.
  [[nodiscard]] std::int64_t address(std::size_t counts_before, std::size_t i) const {
    return large_ ? contents_.large_counts[counts_before + i] : contents_.addresses[i];
  }

 private:
  const Contents& contents_;
  bool large_;
};

namespace detail {

template <class Visit>
bool visit_strided(const Contents& contents, const Datatype* child, Visit& visit) {
  const Arguments arguments(contents);
  switch (contents.combiner) {
    case Combiner::contiguous:
      return visit(Placement{0, 1, 0, arguments.count(0), child});
    case Combiner::vector:
      return visit(Placement{0, arguments.count(0), Checked(arguments.count(2)) * child->extent(),
                             arguments.count(1), child});
    case Combiner::hvector:
      return visit(Placement{0, arguments.count(0), arguments.address(2, 0), arguments.count(1), child});
    default:  // one element of something that was already made
      return visit(Placement{0, 1, 0, 1, child});
  }
}

template <class Visit>
bool visit_irregular(const Contents& contents, const Datatype* child, Visit& visit) {
  const Arguments arguments(contents);
  const auto n = static_cast<std::size_t>(arguments.count(0));
  for (std::size_t i = 0; i < n; ++i) {
    Placement placement{0, 1, 0, 0, child};
    switch (contents.combiner) {
      case Combiner::indexed:
        placement.blocklength = arguments.count(1 + i);
        placement.displacement = Checked(arguments.count(1 + n + i)) * child->extent();
        break;
      case Combiner::indexed_block:
        placement.blocklength = arguments.count(1);
        placement.displacement = Checked(arguments.count(2 + i)) * child->extent();
        break;
      case Combiner::hindexed_block:
        placement.blocklength = arguments.count(1);
        placement.displacement = arguments.address(2, i);
        break;
      default:  // hindexed, structure
        placement.blocklength = arguments.count(1 + i);
        placement.displacement = arguments.address(1 + n, i);
        if (contents.combiner == Combiner::structure) placement.type = contents.types[i].get();
        break;
    }
    if (!visit(placement)) return false;
  }
  return true;
}

}  // namespace detail

/// Calls `visit(const Placement&)` for the parts of `type` in typemap order, until one call returns false.
/// A type with `as_basic()` has no parts.
template <class Visit>
bool for_each_placement(const Datatype& type, Visit&& visit) {
  if (type.as_basic()) return true;
  if (const auto& pair = type.as_pair()) {
    return visit(Placement{0, 1, 0, 1, &Datatype::basic(pair->value)}) &&
           visit(Placement{pair->index_offset, 1, 0, 1, &Datatype::basic(pair->index)});
  }
  const Contents& contents = type.contents();
  switch (contents.combiner) {
    case Combiner::indexed:
    case Combiner::hindexed:
    case Combiner::indexed_block:
    case Combiner::hindexed_block:
    case Combiner::structure:
      return detail::visit_irregular(contents, contents.types.empty() ? nullptr : contents.types[0].get(),
                                     visit);
    default:
      return detail::visit_strided(contents, type.lowered() ? type.lowered() : contents.types[0].get(),
                                   visit);
  }
}

}  // namespace isthmus
