#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"

namespace isthmus {

/// The kinds of objects that carry attributes.
enum class AttributeOwner : std::uint8_t { communicator, datatype, window };

/// What MPI_*_create_keyval makes: names an attribute and says what happens when its owner is copied or
/// freed. Attributes keep their keyval alive, so that a freed one still serves them (MPI 5.0, section 7.7.2).
class Keyval : public RefCounted {
 public:
  using Value = void*;
  /// `handle` is the owner's; the result is the copy's value, or nothing if the copy shall not have the
  /// attribute. Empty: never copied.
  using Copy = std::function<Result<std::optional<Value>>(std::uintptr_t handle, int keyval, Value value)>;
  /// Empty: nothing to do.
  using Delete = std::function<Result<>(std::uintptr_t handle, int keyval, Value value)>;

  Keyval(int number, AttributeOwner owner, Copy copy, Delete destroy)
      : number_(number), owner_(owner), copy_(std::move(copy)), destroy_(std::move(destroy)) {}

  /// The integer that programs know it by.
  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] AttributeOwner owner() const noexcept { return owner_; }
  [[nodiscard]] Result<std::optional<Value>> copy(std::uintptr_t handle, Value value) const;
  [[nodiscard]] Result<> destroy(std::uintptr_t handle, Value value) const;

 private:
  int number_;
  AttributeOwner owner_;
  Copy copy_;
  Delete destroy_;
};

/// The attributes of one communicator, datatype or window (MPI 5.0, section 7.7). In base/ because datatypes
/// come before communicators in the order of layers.
///
/// The callbacks of keyvals run inside of `set`, `erase`, `clear` and `copy_to` and may call them again, on
/// this set too. `handle` is the owner's handle, for them. Guarded by the engine's lock.
class AttributeSet {
 public:
  using Value = Keyval::Value;

  AttributeSet() = default;
  AttributeSet(AttributeSet&&) = default;
  AttributeSet& operator=(AttributeSet&&) = default;

  [[nodiscard]] bool empty() const noexcept { return attributes_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return attributes_.size(); }
  [[nodiscard]] std::optional<Value> find(const Keyval& keyval) const noexcept;

  /// Sets the value; one that was there is deleted first. On the error of its delete callback it stays.
  [[nodiscard]] Result<> set(const Ref<Keyval>& keyval, Value value, std::uintptr_t handle);
  /// Deletes the attribute, if it is there. On the error of its delete callback it stays.
  [[nodiscard]] Result<> erase(const Keyval& keyval, std::uintptr_t handle);
  /// Deletes all, the last set first (the order that section 11.2.4 demands for MPI_COMM_SELF). Stops at the
  /// first error; what is not yet deleted stays.
  [[nodiscard]] Result<> clear(std::uintptr_t handle);
  /// What duplicating the owner does: copies to the empty set `copy` whatever the copy callbacks let pass.
  /// Stops at the first error; the caller then drops the copy.
  [[nodiscard]] Result<> copy_to(AttributeSet& copy, std::uintptr_t handle) const;

 private:
  struct Attribute {
    Ref<Keyval> keyval;
    Value value;
  };
  [[nodiscard]] std::size_t index_of(const Keyval& keyval) const noexcept;

  std::vector<Attribute> attributes_;  ///< in the order in which they were set
};

}  // namespace isthmus
