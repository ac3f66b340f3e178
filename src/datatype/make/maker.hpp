#pragma once

#include <cstdint>

#include "datatype/datatype.hpp"

namespace isthmus {

/// Puts datatypes together for the constructors; nothing else includes this.
class Datatype::Maker {
 public:
  /// A derived type from checked arguments. `lowered` is what subarrays and darrays were reduced to. Fails
  /// with class `count` where the size, and with class `arg` where a bound, leaves 64 bits.
  [[nodiscard]] static Result<Ref<Datatype>> derive(Contents contents, Ref<Datatype> lowered = nullptr);

  /// A derived type once more.
  [[nodiscard]] static Result<Ref<Datatype>> clone(const Datatype& type);

  /// A named type.
  [[nodiscard]] static Datatype* named(const BasicInfo& info);
  /// An unnamed predefined type with the data of `basic`, made from `contents`. Fails only for want of
  /// memory.
  [[nodiscard]] static Result<Ref<Datatype>> unnamed(Basic basic, Contents contents);
};

}  // namespace isthmus
