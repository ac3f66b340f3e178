#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace isthmus {

/// A set of hardware threads by the numbers that the operating system gives them, of any size.
class CpuSet {
 public:
  void insert(unsigned cpu);
  [[nodiscard]] bool contains(unsigned cpu) const noexcept;
  [[nodiscard]] bool empty() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;

  /// The one with the lowest number.
  [[nodiscard]] std::optional<unsigned> first() const noexcept;

  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);

  /// As `taskset -c` takes it: "0-3,8"; "none" if it is empty.
  [[nodiscard]] std::string to_string() const;
  /// What `to_string` has made, of a million hardware threads at most.
  static Result<CpuSet> parse(std::string_view text);

  /// Where this thread may run (sched_getaffinity).
  static Result<CpuSet> affinity();
  /// Confines this thread and what it will start to the set. 0 or an errno; safe between vfork and exec.
  [[nodiscard]] int bind() const noexcept;

 private:
  static constexpr unsigned word_bits = 64;
  std::vector<std::uint64_t> words_;  ///< laid out as the kernel's cpumask on little-endian machines
};

}  // namespace isthmus
