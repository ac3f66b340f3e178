#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/ref.hpp"

namespace isthmus::abi {

/// What a handle refers to; part of its value, so that a communicator passed as a datatype is recognised.
enum class HandleKind : std::uint8_t {
  comm = 1,
  group,
  datatype,
  op,
  info,
  errhandler,
  request,
  message,
  win,
  file,
  session,
  stream,
  enqueued,
};

/// Handles of programs are never pointers: `kind : 8 | generation : 24 | 0x1000 + index : 32`. A lookup of
/// any 64-bit value is safe and finds only a living object of the right kind; freed handles are recognised
/// until their slot has been reused 2^24 times. Predefined handles are the ABI's small constants (MPI 5.0,
/// appendix A).
struct HandleValue {
  static constexpr std::uint32_t first_index = 0x1000;

  static constexpr std::uintptr_t make(HandleKind kind, std::uint32_t generation, std::uint32_t index) {
    return (std::uintptr_t{static_cast<std::uint8_t>(kind)} << 56) |
           (std::uintptr_t{generation & 0xff'ffff} << 32) | (first_index + index);
  }
  static constexpr bool predefined(std::uintptr_t value) { return value < first_index; }
  static constexpr std::uint32_t index(std::uintptr_t value) {
    return static_cast<std::uint32_t>(value) - first_index;
  }
  /// Kind and generation together.
  static constexpr std::uint32_t stamp(std::uintptr_t value) {
    return static_cast<std::uint32_t>(value >> 32);
  }
};

/// Maps handles of one kind to objects and owns a reference for each. Guarded by the engine's lock.
template <class Handle, class Object, HandleKind kind>
class HandleTable {
 public:
  /// Makes `object` known under a constant of mpi.h; it becomes immortal.
  void define(Handle constant, Ref<Object> object) {
    const auto value = reinterpret_cast<std::uintptr_t>(constant);
    object->make_immortal();
    object->handle = value;
    if (predefined_.size() <= value) predefined_.resize(value + 1, nullptr);
    predefined_[value] = object.leak();
  }

  /// A new handle for `object`, which from now on names it as its own if it has none yet.
  Handle add(Ref<Object> object) {
    if (HandleValue::predefined(object->handle) && object->handle != 0)
      return reinterpret_cast<Handle>(object->handle);
    std::uint32_t index;
    if (free_.empty()) {
      index = static_cast<std::uint32_t>(slots_.size());
      // So that removing a handle needs no memory.
      if (free_.capacity() <= slots_.size()) free_.reserve(2 * slots_.size() + 8);
      slots_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    Slot& slot = slots_[index];
    const std::uintptr_t value = HandleValue::make(kind, slot.stamp + 1, index);
    slot.stamp = HandleValue::stamp(value);
    slot.uses = 1;
    if (object->handle == 0) object->handle = value;
    slot.object = object.leak();
    return reinterpret_cast<Handle>(value);
  }

  /// For functions that return an object which the program may know already (MPI_Comm_get_errhandler): the
  /// handle that it has, so that handles compare, or a new one. The program frees what it gets, so the
  /// handle lives until it was removed once more.
  Handle share(Object& object) {
    const auto handle = reinterpret_cast<Handle>(object.handle);
    if (object.handle == 0 || find(handle) != &object) return add(Ref<Object>::share(&object));
    if (!HandleValue::predefined(object.handle)) ++slots_[HandleValue::index(object.handle)].uses;
    return handle;
  }

  /// The object, or null if the handle is not one of ours, null or freed.
  [[nodiscard]] Object* find(Handle handle) const noexcept {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    if (HandleValue::predefined(value)) return value < predefined_.size() ? predefined_[value] : nullptr;
    const std::uint32_t index = HandleValue::index(value);
    if (index >= slots_.size() || slots_[index].stamp != HandleValue::stamp(value)) [[unlikely]]
      return nullptr;
    return slots_[index].object;
  }

  /// Takes the handle out of the table and returns its reference; empty for predefined and unknown handles. A
  /// shared handle stays until its last use is removed.
  Ref<Object> remove(Handle handle) {
    Object* object = find(handle);
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    if (!object || HandleValue::predefined(value)) return {};
    const std::uint32_t index = HandleValue::index(value);
    if (--slots_[index].uses != 0) return Ref<Object>::share(object);
    slots_[index].stamp &= 0xff'ffff;
    slots_[index].object = nullptr;
    free_.push_back(index);
    if (object->handle == value) object->handle = 0;
    return Ref<Object>::adopt(object);
  }

  /// For MPI_*_toint and MPI_*_fromint (MPI 5.0, section 19.3.4): predefined handles are their own numbers,
  /// others `0x1000 + index`.
  [[nodiscard]] static int to_int(Handle handle) noexcept {
    return static_cast<int>(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(handle)));
  }
  [[nodiscard]] Handle from_int(int number) const noexcept {
    const auto value = static_cast<std::uint32_t>(number);
    if (HandleValue::predefined(value)) return reinterpret_cast<Handle>(std::uintptr_t{value});
    const std::uint32_t index = HandleValue::index(value);
    if (index >= slots_.size() || !slots_[index].object) return nullptr;
    return reinterpret_cast<Handle>((std::uintptr_t{slots_[index].stamp} << 32) | value);
  }

  /// Calls `visit(Object&)` for every object that has a handle.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (Object* object : predefined_)
      if (object) visit(*object);
    for (const Slot& slot : slots_)
      if (slot.object) visit(*slot.object);
  }

  /// Handles that a program has not freed.
  [[nodiscard]] std::size_t living() const noexcept { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    Object* object = nullptr;
    /// Kind and generation of the living handle; of a free slot the last generation, with kind 0.
    std::uint32_t stamp = 0;
    std::uint32_t uses = 0;  ///< how often the program was given the handle
  };
  std::vector<Object*> predefined_;  ///< by constant; immortal
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace isthmus::abi
