#pragma once

#include <cstdint>

#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"

namespace isthmus::coll {

/// Combines the contributions of the ranks from `first` to `last` into `result`, from the last one down: so
/// the running value is always the right operand, where results go without a copy. `part` is where the wanted
/// elements begin in each; `apart`: of the ranks each so many-th, `last` among them.
template <class Step>
Result<> combine(const Step& step, int first, int last, std::uint64_t bytes, void* result,
                 const Reduction& what, std::uint64_t part = 0, int apart = 1) {
  const Payload value = elements(result, what);
  copy_bytes(value.data, step.heard(last, bytes) + part, value.bytes);
  for (int i = last - apart; i >= first; i -= apart)
    ISTHMUS_TRY(what.op->reduce(step.heard(i, bytes) + part, result, what.count, *what.type));
  return {};
}

}  // namespace isthmus::coll
