#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"

namespace isthmus {

class Datatype;

/// A piece of memory that is part of a message.
struct Segment {
  std::byte* data;
  std::size_t bytes;

  friend bool operator==(const Segment&, const Segment&) = default;
};

/// A typemap compiled to nested loops over blocks of bytes, in the order in which they are packed. Regular
/// types take constant memory whatever their counts; irregular ones one entry for each block, after adjacent
/// blocks were joined. Immutable; made when a type is committed and shared by every operation that uses it.
class Layout final : public RefCounted {
 public:
  enum class Kind : std::uint8_t {
    empty,     // no bytes
    blocks,    // `count` blocks of `bytes` bytes, `stride` bytes from start to start
    loop,      // `count` times the node `child` of `bytes` packed bytes, `stride` bytes apart
    list,      // `count` blocks at `offsets_[first + i]`, all of `bytes` bytes, or, where that is 0, as told
               // by `packed_[packed + i]` to `[.. + i + 1]`
    sequence,  // `count` nodes `children_[first + i]`; packed positions as in a list
  };

  /// Packed positions are relative to the node.
  struct Node {
    Kind kind = Kind::empty;
    std::uint32_t child = 0;
    std::int64_t count = 0;
    std::int64_t stride = 0;
    std::uint64_t bytes = 0;
    std::uint64_t size = 0;    // packed bytes in all
    std::uint64_t blocks = 0;  // separate blocks in all
    std::size_t first = 0;
    std::size_t packed = 0;
  };

  /// A node at a distance from the address of what contains it.
  struct Placed {
    std::int64_t offset = 0;
    Node node;
  };

  struct Child {
    std::int64_t offset;
    std::uint32_t node;
  };

  /// Compiles `type`, which need not be committed. Fails only for want of memory.
  [[nodiscard]] static Result<Ref<const Layout>> compile(const Datatype& type);

  [[nodiscard]] const Placed& root() const noexcept { return root_; }
  /// `count` elements, `extent` bytes apart, as one node: what a message is.
  [[nodiscard]] Placed repeated(std::int64_t count, std::int64_t extent) const noexcept;

  [[nodiscard]] const Node& node(std::uint32_t index) const noexcept { return nodes_[index]; }
  [[nodiscard]] const std::int64_t* offsets(const Node& list) const noexcept { return &offsets_[list.first]; }
  [[nodiscard]] const Child* children(const Node& sequence) const noexcept {
    return &children_[sequence.first];
  }
  [[nodiscard]] const std::uint64_t* packed(const Node& node) const noexcept { return &packed_[node.packed]; }

  /// Bytes of memory that it takes, for tests and diagnostics.
  [[nodiscard]] std::size_t memory() const noexcept;

 private:
  friend class LayoutBuilder;
  Layout() = default;
  ~Layout() override = default;

  Placed root_;
  std::uint32_t root_index_ = 0;  // the root among the nodes, for loops around it
  std::vector<Node> nodes_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::uint64_t> packed_;
  std::vector<Child> children_;
};

}  // namespace isthmus
