#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "comm/communicator.hpp"

namespace isthmus::coll {

/// Tags in a communicator's collective context that belong to the making of communicators. The collectives
/// themselves stay below; tags of programs end where the second range begins (`maximum_tag`), so that those
/// that MPI_Comm_create_group and MPI_Intercomm_create are given can be told apart.
inline constexpr int agree_tag = 0x2000'0000;
inline constexpr int agree_local_tag = agree_tag + 1;  ///< within one side of an intercommunicator
inline constexpr int agree_name_tag = 0x3000'0000;     ///< + the hash of a name, below `agree_user_tag`
static_assert(agree_name_tag == together_tags);
inline constexpr int agree_user_tag = 0x4000'0000;  ///< + the program's tag
inline constexpr int maximum_tag = 0x3fff'ffff;

/// Some processes of a communicator's local group that exchange small facts of fixed size while they make a
/// new communicator. Position 0 is the one that the others hear.
///
/// Messages go over the collective context of the communicator but need no collective: circles exist for
/// parts of communicators and for either side of an intercommunicator.
class Circle {
 public:
  /// The whole local group, starting at `root` and wrapping around.
  static Circle of_local_group(Communicator& comm, int root = 0);
  /// Members of `group`, all of them in the local group of `comm`, from rank `root` in `group` on; the caller
  /// is one of them.
  static Circle of(Communicator& comm, const Group& group, int tag, std::uint32_t root = 0);

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(ranks_.size()); }
  [[nodiscard]] std::uint32_t position() const noexcept { return position_; }
  /// The process at position 0.
  [[nodiscard]] PeerId first() const noexcept {
    return comm_.group()->process(static_cast<std::uint32_t>(ranks_[0]));
  }

  /// From position 0 to all.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Result<> broadcast(T& fact) {
    return broadcast_bytes(std::as_writable_bytes(std::span(&fact, 1)));
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Result<> broadcast(std::vector<T>& facts) {
    return broadcast_bytes(std::as_writable_bytes(std::span(facts)));
  }

  /// Everybody's fact, by position.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Result<std::vector<T>> gather_all(const T& fact) {
    std::vector<T> facts(size());
    facts[0] = fact;
    ISTHMUS_TRY(gather_all_bytes(std::as_writable_bytes(std::span(facts)), sizeof(T)));
    return facts;
  }

 private:
  Circle(Communicator& comm, int tag) : comm_(comm), tag_(tag) {}

  Result<> broadcast_bytes(std::span<std::byte> bytes);
  /// `blocks`: the caller's block first; at the end all, in order of position.
  Result<> gather_all_bytes(std::span<std::byte> blocks, std::size_t block);
  [[nodiscard]] Target target(std::uint32_t position) const;

  Communicator& comm_;
  int tag_;
  std::uint32_t position_ = 0;
  std::vector<int> ranks_;  ///< in the local group, by position
};

/// Exchanges `mine` for `theirs`, of sizes that both sides know, with rank `rank` of the group that `comm`
/// sends to.
Result<> swap(Communicator& comm, int rank, int tag, std::span<const std::byte> mine,
              std::span<std::byte> theirs);

}  // namespace isthmus::coll
