#include "datatype/make/maker.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "datatype/placement.hpp"

namespace isthmus {

namespace {

/// Deeper nesting is refused: compiling and releasing types recurse once for each level.
constexpr int max_depth = 4096;

/// Collects the bounds of a typemap from its parts (MPI 5.0, sections 5.1 and 5.1.7).
class BoundsBuilder {
 public:
  void add(const Placement& part) {
    const Bounds& child = part.type->bounds();
    if (part.count == 0 || part.blocklength == 0) return;
    const Checked number = Checked(part.count) * part.blocklength;
    size_ = size_ + number * child.size;
    elements_ = elements_ + number * child.elements;
    external32_size_ = external32_size_ + number * child.external32_size;
    if (child.size == 0 && !child.has_markers) return;

    const Checked across = Checked(part.count - 1) * part.stride;
    const Checked along = Checked(part.blocklength - 1) * part.type->extent();
    const Checked zero = 0;
    ok_ = ok_ && across.ok() && along.ok();
    const Checked low = part.displacement + std::min(zero, across, less) + std::min(zero, along, less);
    const Checked high = part.displacement + std::max(zero, across, less) + std::max(zero, along, less);
    if (child.size > 0) {
      data_.include(low + child.true_lb, high + child.true_ub);
      alignment_ = std::max(alignment_, child.alignment);
    }
    if (child.has_markers) markers_.include(low + child.lb, high + child.ub);
  }

  [[nodiscard]] Result<Bounds> finish() {
    if (!size_.ok() || !elements_.ok() || !external32_size_.ok()) {
      return fail(ErrorClass::count, "the size of the new datatype passes 2^63 - 1 bytes");
    }
    Bounds bounds;
    bounds.size = size_.value();
    bounds.elements = elements_.value();
    bounds.external32_size = external32_size_.value();
    bounds.true_lb = data_.low.value();
    bounds.true_ub = data_.high.value();
    bounds.alignment = alignment_;
    bounds.has_markers = markers_.any;
    const Range& range = markers_.any ? markers_ : data_;
    const Checked extent = range.high - range.low;
    const std::int64_t beyond = extent.value() % alignment_;
    const bool rounded = !markers_.any && beyond != 0;
    const Checked ub = rounded ? range.high + (alignment_ - beyond) : range.high;
    const bool all_ok =
        ok_ && data_.ok() && markers_.ok() && (ub - range.low).ok() && (data_.high - data_.low).ok();
    if (!all_ok) return fail(ErrorClass::arg, "a bound of the new datatype leaves the 64-bit range");
    bounds.lb = range.low.value();
    bounds.ub = ub.value();
    return bounds;
  }

 private:
  struct Range {
    bool any = false;
    Checked low, high;

    void include(Checked from, Checked to) {
      low = any ? low.value() < from.value() ? with(low, from) : with(from, low) : from;
      high = any ? high.value() > to.value() ? with(high, to) : with(to, high) : to;
      any = true;
    }
    [[nodiscard]] bool ok() const { return low.ok() && high.ok(); }

    /// `kept`, spoilt if `other` is.
    static Checked with(Checked kept, Checked other) { return kept + (other - other); }
  };

  static bool less(Checked a, Checked b) { return a.value() < b.value(); }

  Checked size_, elements_, external32_size_;
  Range data_, markers_;
  std::int64_t alignment_ = 1;
  bool ok_ = true;
};

/// What all elements of a derived type are, if they are one basic type.
std::optional<Basic> common_basic(const Datatype& type) {
  std::optional<Basic> common;
  const bool mixed = !for_each_placement(type, [&](const Placement& part) {
    if (part.count == 0 || part.blocklength == 0 || part.type->size() == 0) return true;
    const std::optional<Basic> basic = part.type->only_basic();
    if (!basic || (common && common != basic)) return false;
    common = basic;
    return true;
  });
  return mixed ? std::nullopt : common;
}

}  // namespace

Result<Ref<Datatype>> Datatype::Maker::derive(Contents contents, Ref<Datatype> lowered) try {
  Ref<Datatype> made = Ref<Datatype>::adopt(new Datatype);
  Datatype& type = *made;
  type.contents_ = std::move(contents);
  type.lowered_ = std::move(lowered);
  for (const Ref<Datatype>& child : type.contents_.types) {
    type.depth_ = std::max(type.depth_, child->depth_ + 1);
  }
  if (type.lowered_) type.depth_ = std::max(type.depth_, type.lowered_->depth_ + 1);
  if (type.depth_ > max_depth) {
    return fail(ErrorClass::type, "datatypes nest deeper than " + std::to_string(max_depth) + " levels");
  }

  BoundsBuilder builder;
  for_each_placement(type, [&](const Placement& part) {
    builder.add(part);
    return true;
  });
  Result<Bounds> bounds = builder.finish();
  if (!bounds) return std::unexpected(std::move(bounds).error());
  type.bounds_ = *bounds;
  if (type.combiner() == Combiner::resized) {
    const Arguments arguments(type.contents_);
    const Checked ub = Checked(arguments.address(0, 0)) + arguments.address(0, 1);
    if (!ub.ok()) return fail(ErrorClass::arg, "lb + extent leaves the 64-bit range");
    type.bounds_.lb = arguments.address(0, 0);
    type.bounds_.ub = ub.value();
    type.bounds_.has_markers = true;
  }
  type.only_basic_ = common_basic(type);
  if (type.combiner() == Combiner::dup && type.contents_.types[0]->committed()) {
    type.adopt(Ref<const Layout>::share(&type.contents_.types[0]->layout()));
  }
  return made;
} catch (const std::bad_alloc&) {
  return fail(ErrorClass::no_mem, "no memory for a datatype");
} catch (const std::length_error&) {
  return fail(ErrorClass::no_mem, "no memory for a datatype");
}

Result<Ref<Datatype>> Datatype::Maker::clone(const Datatype& type) {
  Result<Ref<Datatype>> made = derive(type.contents_, type.lowered_);
  if (made && type.committed()) (*made)->adopt(Ref<const Layout>::share(&type.layout()));
  return made;
}

}  // namespace isthmus
