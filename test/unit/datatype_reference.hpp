#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "datatype/datatype.hpp"
#include "datatype/make/array_types.hpp"
#include "datatype/make/construct.hpp"

/// A datatype as the standard defines it, a flat list of entries (MPI 5.0, section 5.1), and random types
/// made both ways. Tests hold the library against it.
namespace isthmus::test {

struct Entry {
  std::int64_t displacement;
  Basic basic;
};

class Typemap {
 public:
  static Typemap of(Basic basic) {
    Typemap map;
    if (const auto& pair = info(basic).pair) {
      map.entries = {{0, pair->value}, {pair->index_offset, pair->index}};
    } else {
      map.entries = {{0, basic}};
    }
    return map;
  }

  /// Appends `block` consecutive elements of `type`, the first at `displacement`.
  void append(const Typemap& type, std::int64_t displacement, std::int64_t block = 1) {
    const std::int64_t step = type.extent();
    for (std::int64_t i = 0; i < block; ++i) {
      const std::int64_t at = displacement + i * step;
      for (const Entry& entry : type.entries)
        entries.push_back({at + entry.displacement, entry.basic});
      for (const std::int64_t lb : type.lb_markers)
        lb_markers.push_back(at + lb);
      for (const std::int64_t ub : type.ub_markers)
        ub_markers.push_back(at + ub);
    }
  }

  /// Without the markers of `type`, and with new ones.
  static Typemap resized(const Typemap& type, std::int64_t lb, std::int64_t extent) {
    Typemap map;
    map.entries = type.entries;
    map.lb_markers = {lb};
    map.ub_markers = {lb + extent};
    return map;
  }

  [[nodiscard]] std::int64_t size() const {
    std::int64_t sum = 0;
    for (const Entry& entry : entries)
      sum += info(entry.basic).size;
    return sum;
  }
  [[nodiscard]] std::int64_t true_lb() const {
    std::optional<std::int64_t> low;
    for (const Entry& entry : entries)
      low = std::min(low.value_or(entry.displacement), entry.displacement);
    return low.value_or(0);
  }
  [[nodiscard]] std::int64_t true_ub() const {
    std::optional<std::int64_t> high;
    for (const Entry& entry : entries) {
      const std::int64_t end = entry.displacement + info(entry.basic).size;
      high = std::max(high.value_or(end), end);
    }
    return high.value_or(0);
  }
  [[nodiscard]] std::int64_t lb() const {
    return lb_markers.empty() ? true_lb() : *std::min_element(lb_markers.begin(), lb_markers.end());
  }
  [[nodiscard]] std::int64_t ub() const {
    if (!ub_markers.empty()) return *std::max_element(ub_markers.begin(), ub_markers.end());
    std::int64_t alignment = 1;
    for (const Entry& entry : entries) {
      alignment = std::max<std::int64_t>(alignment, info(entry.basic).alignment);
    }
    std::int64_t extent = true_ub() - lb();
    while (extent % alignment != 0)
      ++extent;
    return lb() + extent;
  }
  [[nodiscard]] std::int64_t extent() const { return ub() - lb(); }

  [[nodiscard]] std::vector<std::byte> pack(const std::byte* base, std::int64_t count) const {
    std::vector<std::byte> out;
    const std::int64_t step = extent();
    for (std::int64_t i = 0; i < count; ++i) {
      for (const Entry& entry : entries) {
        const std::byte* at = base + i * step + entry.displacement;
        out.insert(out.end(), at, at + info(entry.basic).size);
      }
    }
    return out;
  }
  void unpack(std::byte* base, std::int64_t count, std::span<const std::byte> in) const {
    const std::int64_t step = extent();
    for (std::int64_t i = 0; i < count; ++i) {
      for (const Entry& entry : entries) {
        const std::size_t n = std::min<std::size_t>(info(entry.basic).size, in.size());
        std::copy_n(in.data(), n, base + i * step + entry.displacement);
        in = in.subspan(n);
      }
    }
  }

  std::vector<Entry> entries;
  std::vector<std::int64_t> lb_markers, ub_markers;
};

struct BothWays {
  Ref<Datatype> type;
  Typemap map;
};

/// Memory that holds `count` elements of a type with room around them.
class Arena {
 public:
  Arena(const Typemap& map, std::int64_t count) {
    const std::int64_t last = std::max<std::int64_t>(count - 1, 0) * map.extent();
    const std::int64_t low = std::min<std::int64_t>(0, last) + map.true_lb();
    const std::int64_t high = std::max<std::int64_t>(0, last) + map.true_ub();
    base_ = margin - std::min<std::int64_t>(low, 0);
    bytes_.resize(static_cast<std::size_t>(base_ + std::max<std::int64_t>(high, 0) + margin));
  }
  void fill(std::mt19937& random) {
    for (std::byte& byte : bytes_)
      byte = static_cast<std::byte>(random());
  }
  [[nodiscard]] std::byte* base() { return bytes_.data() + base_; }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t margin = 64;
  std::int64_t base_ = 0;
  std::vector<std::byte> bytes_;
};

/// Makes random types; the same seed makes the same ones.
class RandomTypes {
 public:
  explicit RandomTypes(unsigned seed) : random_(seed) {}

  BothWays make(int depth) {
    if (depth == 0) return basic();
    BothWays old = make(depth - 1);
    if (old.map.entries.size() > 200) return old;
    switch (number(0, 8)) {
      case 0:
        return contiguous(old);
      case 1:
        return vector(old, false);
      case 2:
        return vector(old, true);
      case 3:
        return indexed(old, false);
      case 4:
        return indexed(old, true);
      case 5:
        return indexed_block(old);
      case 6:
        return structure(old, make(number(0, depth - 1)));
      case 7:
        return subarray(old);
      default:
        return resized(old);
    }
  }

  std::int64_t number(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random_);
  }
  std::mt19937& random() { return random_; }

 private:
  BothWays basic() {
    static constexpr Basic choices[] = {Basic::int8,      Basic::int_,       Basic::double_,
                                        Basic::short_int, Basic::float_int,  Basic::long_,
                                        Basic::character, Basic::double_int, Basic::int16,
                                        Basic::complex16, Basic::long_double};
    const Basic choice = choices[number(0, std::size(choices) - 1)];
    return {Ref<Datatype>::share(&Datatype::basic(choice)), Typemap::of(choice)};
  }
  /// Mostly at least 1, so that nesting does not empty everything, and 0 now and then.
  std::int64_t amount(std::int64_t most) { return number(0, 15) == 0 ? 0 : number(1, most); }
  Form form() { return number(0, 1) != 0 ? Form::large : Form::small; }

  BothWays contiguous(const BothWays& old) {
    const std::int64_t count = amount(5);
    BothWays result{*contiguous_type(count, *old.type, form()), {}};
    result.map.append(old.map, 0, count);
    return result;
  }
  BothWays vector(const BothWays& old, bool in_bytes) {
    const std::int64_t count = amount(4), block = amount(3);
    const std::int64_t stride = in_bytes ? number(-40, 90) : number(-3, 6);
    const std::int64_t bytes = in_bytes ? stride : stride * old.map.extent();
    BothWays result{in_bytes ? *hvector_type(count, block, stride, *old.type, form())
                             : *vector_type(count, block, stride, *old.type, form()),
                    {}};
    for (std::int64_t i = 0; i < count; ++i)
      result.map.append(old.map, i * bytes, block);
    return result;
  }
  BothWays indexed(const BothWays& old, bool in_bytes) {
    const auto n = static_cast<std::size_t>(amount(5));
    std::vector<std::int64_t> lengths(n), displacements(n);
    for (std::int64_t& length : lengths)
      length = amount(3);
    for (std::int64_t& displacement : displacements) {
      displacement = in_bytes ? number(-60, 120) : number(-6, 12);
    }
    BothWays result;
    if (in_bytes) {
      result.type = *hindexed_type(std::span<const std::int64_t>(lengths), displacements, *old.type, form());
    } else {
      result.type = *indexed_type(std::span<const std::int64_t>(lengths),
                                  std::span<const std::int64_t>(displacements), *old.type, form());
    }
    const std::int64_t unit = in_bytes ? 1 : old.map.extent();
    for (std::size_t i = 0; i < n; ++i)
      result.map.append(old.map, displacements[i] * unit, lengths[i]);
    return result;
  }
  BothWays indexed_block(const BothWays& old) {
    const bool in_bytes = number(0, 1) != 0;
    std::vector<std::int64_t> displacements(static_cast<std::size_t>(amount(6)));
    for (std::int64_t& displacement : displacements)
      displacement = number(-8, 16);
    const std::int64_t block = amount(3);
    BothWays result{in_bytes ? *hindexed_block_type(block, displacements, *old.type, form())
                             : *indexed_block_type(block, std::span<const std::int64_t>(displacements),
                                                   *old.type, form()),
                    {}};
    for (const std::int64_t displacement : displacements) {
      result.map.append(old.map, in_bytes ? displacement : displacement * old.map.extent(), block);
    }
    return result;
  }
  BothWays structure(const BothWays& first, const BothWays& second) {
    const BothWays* members[] = {&first, &second, &first};
    std::int64_t lengths[3], displacements[3];
    Datatype* types[3];
    BothWays result;
    for (std::size_t i = 0; i < 3; ++i) {
      lengths[i] = amount(2);
      displacements[i] = number(-100, 200);
      types[i] = members[i]->type.get();
      result.map.append(members[i]->map, displacements[i], lengths[i]);
    }
    result.type = *struct_type(std::span<const std::int64_t>(lengths), displacements, types, form());
    return result;
  }
  BothWays subarray(const BothWays& old) {
    const std::int64_t sizes[] = {number(1, 4), number(1, 4)};
    const std::int64_t subsizes[] = {number(1, sizes[0]), number(1, sizes[1])};
    const std::int64_t starts[] = {number(0, sizes[0] - subsizes[0]), number(0, sizes[1] - subsizes[1])};
    BothWays result{
        *subarray_type(std::span<const std::int64_t>(sizes), std::span<const std::int64_t>(subsizes),
                       std::span<const std::int64_t>(starts), ArrayOrder::c, *old.type, form()),
        {}};
    Typemap parts;
    for (std::int64_t i = 0; i < subsizes[0]; ++i) {
      for (std::int64_t j = 0; j < subsizes[1]; ++j) {
        parts.append(old.map, ((starts[0] + i) * sizes[1] + starts[1] + j) * old.map.extent());
      }
    }
    result.map = Typemap::resized(parts, 0, sizes[0] * sizes[1] * old.map.extent());
    return result;
  }
  BothWays resized(const BothWays& old) {
    const std::int64_t lb = number(-16, 16), extent = number(-8, 64);
    return {*resized_type(lb, extent, *old.type, form()), Typemap::resized(old.map, lb, extent)};
  }

  std::mt19937 random_;
};

}  // namespace isthmus::test
