#pragma once

#include <cstddef>

namespace isthmus {

/// A doubly linked list through members of its items, which it does not own. `Link` holds the neighbours of
/// an item in one list.
template <class T>
struct Link {
  T* next = nullptr;
  T* previous = nullptr;
};

template <class T, Link<T> T::* link>
class Queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
  [[nodiscard]] T* front() const noexcept { return head_; }
  [[nodiscard]] static T* after(const T* item) noexcept { return (item->*link).next; }

  void push_back(T* item) noexcept {
    (item->*link) = {nullptr, tail_};
    (tail_ ? (tail_->*link).next : head_) = item;
    tail_ = item;
  }
  void push_front(T* item) noexcept {
    (item->*link) = {head_, nullptr};
    (head_ ? (head_->*link).previous : tail_) = item;
    head_ = item;
  }
  void remove(T* item) noexcept {
    auto& [next, previous] = item->*link;
    (previous ? (previous->*link).next : head_) = next;
    (next ? (next->*link).previous : tail_) = previous;
    next = previous = nullptr;
  }
  T* pop_front() noexcept {
    T* item = head_;
    if (item) remove(item);
    return item;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace isthmus
