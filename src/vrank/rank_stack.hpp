#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"

namespace isthmus::vrank {

/// The stack of a rank, with room below it that nobody may touch: what runs over the stack is caught there.
class RankStack {
 public:
  /// More than the frame of nearly any function, so that none steps over it. Address space only.
  static constexpr std::size_t guard_bytes = std::size_t{1} << 20;

  /// `bytes` of address space that end at `end`; pages come into being when touched.
  static Result<RankStack> make(std::uint64_t end, std::size_t bytes);
  RankStack() = default;
  RankStack(RankStack&& other) noexcept;
  RankStack& operator=(RankStack&& other) noexcept;
  ~RankStack();

  [[nodiscard]] std::byte* top() const noexcept { return all_.data() + all_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return all_.size() - guard_bytes; }
  /// Whether `address` lies in the guard below the stack.
  [[nodiscard]] bool guards(const void* address) const noexcept;

 private:
  explicit RankStack(std::span<std::byte> all) : all_(all) {}
  std::span<std::byte> all_;  ///< with the guard
};

}  // namespace isthmus::vrank
