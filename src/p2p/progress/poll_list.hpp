#pragma once

#include <utility>

#include "p2p/message/queue.hpp"

namespace isthmus {

class PollList;

/// Something that has to be looked at whenever its engine makes progress, for as long as it is in the
/// engine's `PollList`.
class Polled {
 public:
  Polled() = default;
  Polled(const Polled&) = delete;
  Polled& operator=(const Polled&) = delete;

  /// Does what can be done now; returns how many things happened. Never blocks. May change the list.
  virtual unsigned poll() = 0;
  /// Whether something is under way whose end wakes nobody: then no thread may sleep.
  [[nodiscard]] virtual bool wakes_nobody() const noexcept { return false; }
  /// Has the rank's futex woken, once, when there is something to `poll` that does not wake it by itself.
  /// False where there is something already.
  virtual bool arm() { return true; }

 protected:
  inline virtual ~Polled();

 public:
  // For the list.
  Link<Polled> polled_link;
  PollList* polled_list = nullptr;  ///< null: in none
};

/// What an engine polls. Guarded by the engine's lock.
class PollList {
 public:
  [[nodiscard]] bool empty() const noexcept { return list_.empty(); }
  /// Where it is in the list already, nothing changes.
  void add(Polled& polled) noexcept {
    if (!std::exchange(polled.polled_list, this)) list_.push_back(&polled);
  }
  void remove(Polled& polled) noexcept {
    if (!std::exchange(polled.polled_list, nullptr)) return;
    if (next_ == &polled) next_ = List::after(&polled);
    list_.remove(&polled);
  }

  /// Polls each once. What is polled may make progress itself: that polls the rest, and this look ends.
  unsigned poll() {
    unsigned happened = 0;
    next_ = list_.front();
    while (Polled* const polled = next_) {
      next_ = List::after(polled);
      happened += polled->poll();
    }
    return happened;
  }

  /// As each of them says.
  [[nodiscard]] bool wakes_nobody() const noexcept {
    for (const Polled* each = list_.front(); each; each = List::after(each))
      if (each->wakes_nobody()) return true;
    return false;
  }
  /// Arms each; false where one has something already.
  bool arm() {
    bool armed = true;
    for (Polled* each = list_.front(); each; each = List::after(each))
      if (!each->arm()) armed = false;
    return armed;
  }

 private:
  using List = Queue<Polled, &Polled::polled_link>;
  List list_;
  Polled* next_ = nullptr;
};

Polled::~Polled() {
  if (polled_list) polled_list->remove(*this);
}

}  // namespace isthmus
