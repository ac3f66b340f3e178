#pragma once

#include <array>
#include <cstddef>

#include "wire/ring.hpp"

namespace isthmus {

class Peer;

/// A cell that has been read from a peer's ring, and whose header has been checked. It is the reader's until
/// the handler returns; its payload is not to be believed.
struct ArrivedCell {
  Peer& peer;
  const wire::CellHeader& header;
  const wire::Cell& cell;
  const std::byte* piece;  ///< `header.size` bytes in the byte ring; null for kinds without

  /// What the cell carries, copied out once: the peer may change it at any time.
  template <class T>
  [[nodiscard]] T payload() const {
    return wire::copy_out<T>(cell.payload.data());
  }
};

/// Who handles which kind of cell. Protocols enter themselves when an engine is made. A handler takes the
/// memory that it needs before it changes anything: where it throws, its cell is handled again.
class CellHandlers {
 public:
  /// From now on `object.*handler` is called for cells of that kind.
  template <auto handler, class Object>
  void add(wire::CellKind kind, Object& object) noexcept {
    handlers_[static_cast<std::size_t>(kind)] = {
        &object, [](void* self, const ArrivedCell& cell) { (static_cast<Object*>(self)->*handler)(cell); }};
  }
  /// False where nobody handles that kind.
  [[nodiscard]] bool handle(const ArrivedCell& cell) const {
    const auto kind = static_cast<std::size_t>(cell.header.kind);
    if (kind >= handlers_.size() || !handlers_[kind].call) return false;
    handlers_[kind].call(handlers_[kind].object, cell);
    return true;
  }

 private:
  struct Handler {
    void* object = nullptr;
    void (*call)(void*, const ArrivedCell&) = nullptr;
  };
  std::array<Handler, 32> handlers_{};
};

}  // namespace isthmus
