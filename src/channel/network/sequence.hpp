#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace isthmus::network {

/// Restores the order of one peer's messages, which carry consecutive numbers from 0. The transports below
/// reorder: a long message begun first may be whole after a short one that was begun later.
template <class Item>
class Sequence {
 public:
  /// How far ahead of its turn a message may come. More is taken for nonsense, so that a broken peer cannot
  /// fill this process's memory with messages whose turn never comes.
  static constexpr std::uint64_t window = 1U << 16U;

  enum class Turn : std::uint8_t {
    now,    ///< deliver it, then call `advance`
    early,  ///< `keep` it
    wrong,  ///< its number was there before, or is beyond the window
  };

  [[nodiscard]] Turn turn(std::uint64_t number) const {
    if (number == next_) return Turn::now;
    if (number < next_ || number - next_ > window || kept_.contains(number)) return Turn::wrong;
    return Turn::early;
  }

  void keep(std::uint64_t number, Item item) { kept_.emplace(number, std::move(item)); }

  /// The message whose turn it was has been delivered.
  void advance() { ++next_; }

  /// A kept message whose turn it is now; `advance` after its delivery.
  [[nodiscard]] std::optional<Item> take() {
    if (kept_.empty() || kept_.begin()->first != next_) return std::nullopt;
    auto node = kept_.extract(kept_.begin());
    return std::move(node.mapped());
  }

  /// Gives what is kept to `discard`, in order, for a peer of whom nothing is delivered any more.
  template <class Discard>
  void clear(Discard discard) {
    for (auto& [number, item] : kept_)
      discard(item);
    kept_.clear();
  }

  [[nodiscard]] std::size_t kept() const { return kept_.size(); }

 private:
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Item> kept_;
};

}  // namespace isthmus::network
