#include "datatype/datatype.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include "datatype/placement.hpp"

namespace isthmus {

Datatype::~Datatype() {
  if (const Layout* layout = layout_.load(std::memory_order_acquire)) layout->release();
}

std::unexpected<Error> Datatype::bad_count(std::int64_t count) {
  if (count < 0) return fail(ErrorClass::count, "count " + std::to_string(count) + " is negative");
  return fail(ErrorClass::count, std::to_string(count) + " elements of this datatype pass 2^63 - 1 bytes");
}

void Datatype::adopt(Ref<const Layout> layout) noexcept {
  const Layout::Placed& root = layout->root();
  const bool contiguous = size() == 0 || (root.node.kind == Layout::Kind::blocks && root.node.count == 1 &&
                                          root.offset == 0 && extent() == size());
  contiguous_.store(contiguous, std::memory_order_release);
  const Layout* none = nullptr;
  if (layout_.compare_exchange_strong(none, layout.get(), std::memory_order_acq_rel)) {
    static_cast<void>(layout.leak());
  }
}

Result<> Datatype::commit() {
  if (committed()) return {};
  Result<Ref<const Layout>> layout = Layout::compile(*this);
  if (!layout) return std::unexpected(std::move(layout).error());
  adopt(*std::move(layout));
  return {};
}

namespace {

/// Where a packed message of one element stops early: whole parts count at once, and the part in which it
/// stops is descended into. `per_element` and `found` are bytes and elements, or elements and bytes.
struct Measure {
  std::int64_t Bounds::* given;
  std::int64_t Bounds::* wanted;

  [[nodiscard]] std::optional<std::int64_t> partial(const Datatype& type, std::int64_t amount) const {
    if (amount == 0) return 0;
    if (type.as_basic()) return std::nullopt;
    std::int64_t total = 0;
    std::optional<std::int64_t> rest = 0;
    for_each_placement(type, [&](const Placement& part) {
      const Bounds& child = part.type->bounds();
      const std::int64_t available = child.*given * part.count * part.blocklength;
      if (available == 0) return true;
      if (amount >= available) {
        total += child.*wanted * part.count * part.blocklength;
        amount -= available;
        return amount > 0;
      }
      total += amount / (child.*given) * (child.*wanted);
      rest = partial(*part.type, amount % (child.*given));
      return false;
    });
    return rest ? std::optional(total + *rest) : std::nullopt;
  }

  [[nodiscard]] std::optional<std::int64_t> of(const Datatype& type, std::int64_t amount) const {
    const Bounds& bounds = type.bounds();
    if (bounds.*given == 0) return amount == 0 ? std::optional<std::int64_t>(0) : std::nullopt;
    const Checked whole = Checked(amount / (bounds.*given)) * (bounds.*wanted);
    const std::optional<std::int64_t> rest = partial(type, amount % (bounds.*given));
    if (!rest) return std::nullopt;
    const Checked sum = whole + *rest;
    return sum.ok() ? std::optional(sum.value()) : std::nullopt;
  }
};

}  // namespace

std::optional<std::int64_t> Datatype::elements_in(std::int64_t bytes) const {
  return Measure{&Bounds::size, &Bounds::elements}.of(*this, bytes);
}

std::optional<std::int64_t> Datatype::bytes_of_elements(std::int64_t elements) const {
  return Measure{&Bounds::elements, &Bounds::size}.of(*this, elements);
}

}  // namespace isthmus
