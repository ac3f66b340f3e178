#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "coll/call/local.hpp"
#include "datatype/basic.hpp"
#include "datatype/op.hpp"

/// Operands of reductions: parts of them, and accumulating from ranks in order.
namespace isthmus::coll {

[[nodiscard]] inline Payload elements(const void* buffer, std::int64_t first, std::int64_t count,
                                      const Datatype& type) {
  return Payload::of(element(buffer, first, type), count, type);
}
[[nodiscard]] inline Payload elements(const void* buffer, const Reduction& what) {
  return Payload::of(buffer, what.count, *what.type);
}

/// A predefined operation that treats each element alike, wherever in a vector it stands: a compiler may
/// round the products of complex numbers otherwise in a loop than alone.
[[nodiscard]] inline bool is_elementwise(const Reduction& what) {
  if (!what.op->code() || !what.type->as_basic()) return false;
  return *what.op->code() != OpCode::prod || info(*what.type->as_basic()).type_class != TypeClass::complex;
}

/// What a reduction reads: with MPI_IN_PLACE the receive buffer.
[[nodiscard]] inline const void* operand(const void* send, const void* receive) noexcept {
  return send == in_place ? receive : send;
}
/// For one rank: the result is the operand.
inline void take(const void* send, void* receive, const Reduction& what) {
  copy(elements(operand(send, receive), what), elements(receive, what));
}

/// The elements [begin(i), begin(i + 1)) of `count` that rank i of `parts` works on: as even as possible.
class Shares {
 public:
  Shares(std::int64_t count, int parts) : each_(count / parts), more_(count % parts) {}

  [[nodiscard]] std::int64_t begin(int i) const { return i * each_ + std::min<std::int64_t>(i, more_); }
  [[nodiscard]] std::int64_t size(int i) const { return each_ + (i < more_ ? 1 : 0); }

 private:
  std::int64_t each_;
  std::int64_t more_;
};

/// A value that grows by operands from the left or from the right, without copies: the result of an operation
/// lands in the buffer of its right operand (MPI 5.0, section 6.9.5), so that two buffers change places.
class Accumulator {
 public:
  /// Begins as a copy of `initial`. `result`, if not null, is used as one of the buffers; if it is `initial`,
  /// no copy is made.
  Accumulator(const void* initial, void* result, const Reduction& what)
      : what_(what),
        spare_(what.count, *what.type),
        own_(result ? 0 : what.count, *what.type),
        value_(result ? result : own_.buffer()),
        incoming_(spare_.buffer()) {
    copy(elements(initial, what), value());
  }

  [[nodiscard]] Payload value() const { return elements(value_, what_); }
  /// Where the next operand is to be put.
  [[nodiscard]] Payload incoming() const { return elements(incoming_, what_); }
  [[nodiscard]] const void* value_buffer() const noexcept { return value_; }
  [[nodiscard]] const void* incoming_buffer() const noexcept { return incoming_; }

  /// value = incoming OP value. `incoming` stays as it is.
  Result<> add_left() { return what_.op->reduce(incoming_, value_, what_.count, *what_.type); }
  /// value = value OP incoming. `incoming` is lost.
  Result<> add_right() {
    ISTHMUS_TRY(what_.op->reduce(value_, incoming_, what_.count, *what_.type));
    std::swap(value_, incoming_);
    return {};
  }
  /// Puts the value where `result` is, if it is not there.
  void finish(void* result) const {
    if (value_ != result) copy(value(), elements(result, what_));
  }

 private:
  const Reduction& what_;
  Elements spare_;
  Elements own_;
  void* value_;
  void* incoming_;
};

}  // namespace isthmus::coll
