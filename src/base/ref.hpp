#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace isthmus {

/// Base of objects that MPI keeps alive while operations still use them (MPI 5.0, section 2.5.1): an
/// intrusive count, so that a reference is one word. Thread-safe. Predefined objects are immortal: references
/// to them cost no atomic operation.
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  /// The handle under which programs know this object, 0 while it has none. Set by `abi/`; the layers below
  /// only carry it, for callbacks.
  std::uintptr_t handle = 0;

  void make_immortal() noexcept { immortal_ = true; }
  [[nodiscard]] bool immortal() const noexcept { return immortal_; }

  /// How many references there are now; for whoever waits to be the last.
  [[nodiscard]] std::uint32_t references() const noexcept {
    return references_.load(std::memory_order_acquire);
  }
  void retain() const noexcept {
    if (!immortal_) references_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() const noexcept {
    if (!immortal_ && references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  RefCounted() = default;
  virtual ~RefCounted() = default;

 private:
  mutable std::atomic<std::uint32_t> references_{1};
  bool immortal_ = false;
};

/// Owns one reference to a `RefCounted` object. Empty when default-constructed or moved from.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::convertible_to<U*, T*>
  Ref(Ref<U> other) noexcept : object_(other.leak()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }

  /// Takes over the reference that `new` made.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// Adds a reference to an object that somebody else owns too.
  static Ref share(T* object) noexcept {
    if (object) object->retain();
    return adopt(object);
  }

  /// Gives the reference up without releasing it: the caller owns it now.
  [[nodiscard]] T* leak() noexcept { return std::exchange(object_, nullptr); }
  [[nodiscard]] T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  friend bool operator==(const Ref&, const Ref&) = default;

 private:
  T* object_ = nullptr;
};

template <class T, class... Arguments>
[[nodiscard]] Ref<T> make_ref(Arguments&&... arguments) {
  return Ref<T>::adopt(new T(std::forward<Arguments>(arguments)...));
}

}  // namespace isthmus
