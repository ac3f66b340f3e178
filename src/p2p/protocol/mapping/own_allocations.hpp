#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "p2p/protocol/mapping/shared_memory.hpp"

namespace isthmus {

/// The memory of this process that peers may map, and who has been told of which. Each has a number that none
/// has had before. Guarded by the engine's lock; `part_from_parent` takes none.
class OwnAllocations {
 public:
  /// As many at a time: each keeps a descriptor open.
  static constexpr std::size_t most = 256;

  struct Entry {
    std::uint32_t number = 0;  ///< 0: there is none in this place
    bool is_freed = false;     ///< and some who have been told are to hear of it
    SharedMemory memory = {};
    std::vector<bool> told = {};  ///< by slot
  };

  /// `slots`: of the region.
  explicit OwnAllocations(std::size_t slots) : slots_(slots) {}

  [[nodiscard]] bool has_room() const noexcept;
  /// Where `memory` is kept until `remove`. To be asked for only where there is room.
  Entry& add(SharedMemory memory);
  /// What all of `bytes` at `data` lie in; null for none.
  [[nodiscard]] Entry* find(const void* data, std::uint64_t bytes) noexcept;
  [[nodiscard]] Entry* find(std::uint32_t number) noexcept;
  /// Its memory goes now; its number stays until `remove`.
  static void free(Entry& entry) noexcept;
  static void remove(Entry& entry) noexcept { entry = {}; }
  template <class Visit>
  void for_each(Visit visit) noexcept {
    for (std::size_t i = 0; i < used_; ++i)
      if (all_[i].number != 0) visit(all_[i]);
  }
  void part_from_parent() const noexcept;

 private:
  const std::size_t slots_;
  std::uint32_t last_number_ = 0;
  std::size_t used_ = 0;  ///< no place from here on has ever been taken
  std::array<Entry, most> all_;
};

}  // namespace isthmus
