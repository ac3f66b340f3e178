#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "datatype/basic.hpp"
#include "datatype/datatype.hpp"
#include "datatype/make/maker.hpp"

namespace isthmus {

namespace {

constexpr std::uint16_t first_type_handle = 0x200;
constexpr std::uint16_t type_handle_range = 0x100;

constexpr std::size_t slot(Basic basic) {
  return static_cast<std::uint16_t>(basic) - first_type_handle;
}

/// By handle value. Written once, when the library is loaded, so that a lookup is one load without a guard.
constinit std::array<Datatype*, type_handle_range> predefined{};

Bounds basic_bounds(const BasicInfo& info) {
  Bounds bounds;
  bounds.size = info.size;
  bounds.ub = info.extent;
  bounds.true_ub = info.extent;
  bounds.elements = 1;
  bounds.external32_size = info.external32_size;
  bounds.alignment = info.alignment;
  return bounds;
}

Bounds pair_bounds(const PairParts& parts) {
  const BasicInfo& value = info(parts.value);
  const BasicInfo& index = info(parts.index);
  Bounds bounds;
  bounds.size = value.size + index.size;
  bounds.elements = 2;
  bounds.external32_size = value.external32_size + index.external32_size;
  bounds.alignment = std::max(value.alignment, index.alignment);
  bounds.true_ub = parts.index_offset + index.extent;
  bounds.ub = (bounds.true_ub + bounds.alignment - 1) / bounds.alignment * bounds.alignment;
  return bounds;
}

}  // namespace

Datatype& Datatype::basic(Basic basic) noexcept {
  return *predefined[slot(basic)];
}

Datatype* Datatype::Maker::named(const BasicInfo& info) {
  auto* type = new Datatype;
  type->pair_ = info.pair;
  if (info.pair) {
    type->bounds_ = pair_bounds(*info.pair);
    type->only_basic_ = info.pair->value == info.pair->index ? std::optional(info.pair->value) : std::nullopt;
  } else {
    type->bounds_ = basic_bounds(info);
    type->basic_ = info.basic;
    type->only_basic_ = info.basic;
  }
  type->default_name_ = info.name;
  type->predefined_ = true;
  type->make_immortal();
  type->adopt(*Layout::compile(*type));
  return type;
}

Result<Ref<Datatype>> Datatype::Maker::unnamed(Basic basic, Contents contents) {
  Ref<Datatype> type = Ref<Datatype>::adopt(new Datatype);
  type->bounds_ = basic_bounds(info(basic));
  type->basic_ = basic;
  type->only_basic_ = basic;
  type->contents_ = std::move(contents);
  type->predefined_ = true;
  ISTHMUS_TRY(type->commit());
  return type;
}

namespace {

/// Pairs come after the types that they are made of.
[[maybe_unused]] const bool filled = [] {
  for (const bool pairs : {false, true}) {
    for_each_basic([&](const BasicInfo& info) {
      if (info.pair.has_value() == pairs) predefined[slot(info.basic)] = Datatype::Maker::named(info);
    });
  }
  return true;
}();

}  // namespace

}  // namespace isthmus
