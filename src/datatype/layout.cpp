#include "datatype/layout.hpp"

#include <new>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "datatype/datatype.hpp"
#include "datatype/placement.hpp"

namespace isthmus {

namespace {

using Kind = Layout::Kind;
using Node = Layout::Node;
using Placed = Layout::Placed;

constexpr std::uint64_t unsigned_of(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

bool same(const Node& a, const Node& b) {
  return a.kind == b.kind && a.child == b.child && a.count == b.count && a.stride == b.stride &&
         a.bytes == b.bytes && a.size == b.size && a.blocks == b.blocks && a.first == b.first &&
         a.packed == b.packed;
}

bool is_block(const Node& node) {
  return node.kind == Kind::blocks && node.count == 1;
}

Node block(std::uint64_t bytes) {
  Node node;
  node.kind = Kind::blocks;
  node.count = 1;
  node.bytes = bytes;
  node.size = bytes;
  node.blocks = 1;
  return node;
}

/// `count` times `inner`, `stride` bytes apart, where that is no new level of nesting.
std::optional<Node> merged(const Node& inner, std::int64_t count, std::int64_t stride) {
  Node node = inner;
  node.size = inner.size * unsigned_of(count);
  node.blocks = inner.blocks * unsigned_of(count);
  if (inner.kind == Kind::empty || count == 0) return Node{};
  if (count == 1) return inner;
  if (is_block(inner)) {
    if (stride >= 0 && unsigned_of(stride) == inner.bytes) return block(node.size);
    node.count = count;
    node.stride = stride;
    return node;
  }
  std::int64_t span = 0;
  const bool regular = inner.kind == Kind::blocks || inner.kind == Kind::loop;
  if (!regular || __builtin_mul_overflow(inner.count, inner.stride, &span) || span != stride) {
    return std::nullopt;
  }
  node.count = inner.count * count;
  return node;
}

/// `index` is where `child` is among the nodes.
Node loop_over(const Node& child, std::uint32_t index, std::int64_t count, std::int64_t stride) {
  Node node;
  node.kind = Kind::loop;
  node.child = index;
  node.count = count;
  node.stride = stride;
  node.bytes = child.size;
  node.size = child.size * unsigned_of(count);
  node.blocks = child.blocks * unsigned_of(count);
  return node;
}

}  // namespace

/// Builds a layout bottom up. Types that occur in several places are compiled once.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(Layout& layout) : layout_(layout) {}

  Placed build(const Datatype& type);
  std::uint32_t intern(const Node& node);

 private:
  class Concatenation;

  Placed repeat(const Placed& inner, std::int64_t count, std::int64_t stride);

  Layout& layout_;
  std::unordered_map<const Datatype*, Placed> done_;
};

std::uint32_t LayoutBuilder::intern(const Node& node) {
  auto& nodes = layout_.nodes_;
  if (nodes.empty() || !same(nodes.back(), node)) nodes.push_back(node);
  return static_cast<std::uint32_t>(nodes.size() - 1);
}

Placed LayoutBuilder::repeat(const Placed& inner, std::int64_t count, std::int64_t stride) {
  if (std::optional<Node> node = merged(inner.node, count, stride)) return {inner.offset, *node};
  return {inner.offset, loop_over(inner.node, intern(inner.node), count, stride)};
}

/// Nodes one after another. Stays one regular item as long as what is added is regular, and joins blocks
/// that touch.
class LayoutBuilder::Concatenation {
 public:
  explicit Concatenation(LayoutBuilder& builder) : builder_(builder) {}

  void add(const Placed& next) {
    if (next.node.kind == Kind::empty) return;
    if (is_block(next.node) && pending_ &&
        pending_->offset + static_cast<std::int64_t>(pending_->node.bytes) == next.offset) {
      pending_->node = block(pending_->node.bytes + next.node.bytes);
      return;
    }
    flush();
    if (is_block(next.node)) {
      pending_ = next;
    } else {
      append(next);
    }
  }

  Placed finish() {
    flush();
    if (count_ == 0) return {};
    if (regular_) return builder_.repeat(first_, count_, stride_);
    return {0, all_blocks_ ? list() : sequence()};
  }

 private:
  struct Item {
    std::int64_t offset;
    std::uint64_t bytes;
    std::uint32_t node;  // unless it is a block
    bool is_block;
  };

  void flush() {
    if (pending_) append(*std::exchange(pending_, std::nullopt));
  }

  void append(const Placed& next) {
    if (count_ == 0) {
      first_ = next;
      last_offset_ = next.offset;
    } else if (regular_) {
      if (count_ == 1) stride_ = next.offset - first_.offset;
      if (same(first_.node, next.node) && next.offset - last_offset_ == stride_) {
        last_offset_ = next.offset;
        ++count_;
        return;
      }
      regular_ = false;
      for (std::int64_t i = 0; i < count_; ++i)
        push({first_.offset + i * stride_, first_.node});
    }
    if (!regular_) push(next);
    ++count_;
  }

  void push(const Placed& item) {
    const bool single = is_block(item.node);
    all_blocks_ = all_blocks_ && single;
    uniform_ = uniform_ && (items_.empty() || item.node.size == items_.front().bytes);
    blocks_ += item.node.blocks;
    items_.push_back({item.offset, item.node.size, single ? 0 : builder_.intern(item.node), single});
  }

  Node list() {
    Layout& layout = builder_.layout_;
    Node node = irregular(Kind::list, layout.offsets_.size());
    node.bytes = uniform_ ? items_.front().bytes : 0;
    layout.offsets_.reserve(layout.offsets_.size() + items_.size());
    for (const Item& item : items_) {
      layout.offsets_.push_back(item.offset);
      node.size += item.bytes;
    }
    if (!uniform_) append_packed();
    return node;
  }

  Node sequence() {
    Layout& layout = builder_.layout_;
    for (Item& item : items_) {
      if (item.is_block) item.node = builder_.intern(block(item.bytes));
    }
    Node node = irregular(Kind::sequence, layout.children_.size());
    for (const Item& item : items_) {
      layout.children_.push_back({item.offset, item.node});
      node.size += item.bytes;
    }
    append_packed();
    return node;
  }

  [[nodiscard]] Node irregular(Kind kind, std::size_t first) const {
    Node node;
    node.kind = kind;
    node.count = count_;
    node.blocks = blocks_;
    node.first = first;
    node.packed = builder_.layout_.packed_.size();
    return node;
  }

  void append_packed() {
    auto& packed = builder_.layout_.packed_;
    packed.reserve(packed.size() + items_.size() + 1);
    std::uint64_t position = 0;
    packed.push_back(position);
    for (const Item& item : items_)
      packed.push_back(position += item.bytes);
  }

  LayoutBuilder& builder_;
  std::optional<Placed> pending_;  // a block that the next one may extend
  Placed first_;
  std::int64_t count_ = 0;
  std::int64_t stride_ = 0;
  std::int64_t last_offset_ = 0;
  bool regular_ = true;
  bool all_blocks_ = true;
  bool uniform_ = true;
  std::uint64_t blocks_ = 0;
  std::vector<Item> items_;
};

Placed LayoutBuilder::build(const Datatype& type) {
  if (type.size() == 0) return {};
  if (type.as_basic()) return {0, block(unsigned_of(type.size()))};
  if (const auto found = done_.find(&type); found != done_.end()) return found->second;

  Concatenation parts(*this);
  for_each_placement(type, [&](const Placement& part) {
    if (part.count == 0 || part.blocklength == 0) return true;
    const Placed run = repeat(build(*part.type), part.blocklength, part.type->extent());
    Placed all = repeat(run, part.count, part.stride.value());
    all.offset += part.displacement.value();
    parts.add(all);
    return true;
  });
  return done_.emplace(&type, parts.finish()).first->second;
}

Result<Ref<const Layout>> Layout::compile(const Datatype& type) try {
  auto layout = Ref<Layout>::adopt(new Layout);
  LayoutBuilder builder(*layout);
  layout->root_ = builder.build(type);
  layout->root_index_ = builder.intern(layout->root_.node);
  layout->nodes_.shrink_to_fit();
  layout->offsets_.shrink_to_fit();
  layout->packed_.shrink_to_fit();
  layout->children_.shrink_to_fit();
  if (type.immortal()) layout->make_immortal();
  return Ref<const Layout>(std::move(layout));
} catch (const std::bad_alloc&) {
  return fail(ErrorClass::no_mem, "no memory to compile a datatype");
} catch (const std::length_error&) {
  return fail(ErrorClass::no_mem, "no memory to compile a datatype");
}

Layout::Placed Layout::repeated(std::int64_t count, std::int64_t extent) const noexcept {
  if (std::optional<Node> node = merged(root_.node, count, extent)) return {root_.offset, *node};
  return {root_.offset, loop_over(root_.node, root_index_, count, extent)};
}

std::size_t Layout::memory() const noexcept {
  return sizeof *this + nodes_.capacity() * sizeof(Node) + offsets_.capacity() * sizeof(std::int64_t) +
         packed_.capacity() * sizeof(std::uint64_t) + children_.capacity() * sizeof(Child);
}

}  // namespace isthmus
