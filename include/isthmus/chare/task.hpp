#ifndef ISTHMUS_CHARE_TASK_HPP
#define ISTHMUS_CHARE_TASK_HPP

#include <isthmus/chare/callback.hpp>

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace isthmus::chare {

class Chare;

namespace detail {
/// A coroutine that has not ended, in a list of all of this process. One thread has coroutines of chares.
struct LiveTask {
  LiveTask() noexcept;
  LiveTask(const LiveTask&) = delete;
  LiveTask& operator=(const LiveTask&) = delete;
  ~LiveTask() {
    previous->next = next;
    next->previous = previous;
  }

 protected:
  struct IsList {};
  explicit LiveTask(IsList) noexcept : previous(this), next(this) {}

 public:
  LiveTask* previous;
  LiveTask* next;
};
struct LiveTasks : LiveTask {
  LiveTasks() noexcept : LiveTask(IsList{}) {}
};
inline LiveTasks live_tasks;
inline LiveTask::LiveTask() noexcept : previous(&live_tasks), next(live_tasks.next) {
  previous->next = next->previous = this;
}
}  // namespace detail

/// What an entry (or the function that `run` starts) returns that is a coroutine. It begins at once, in the
/// entry, and goes on in the scheduler when what it awaits is there. Nobody owns it: it ends itself. While
/// one of its coroutines is suspended, a chare neither ends nor moves.
class Task {
 public:
  class promise_type : public detail::LiveTask {
   public:
    promise_type() = default;
    /// Of a member function of a chare. g++ 12 deduces `Self` as a reference.
    template <class Self, class... A>
    explicit promise_type(Self& self, const A&...) {
      if constexpr (std::is_base_of_v<Chare, std::remove_cvref_t<Self>>) hold(self);
    }
    promise_type(const promise_type&) = delete;
    promise_type& operator=(const promise_type&) = delete;
    ~promise_type() {
      if (element_) isthmus_chare_hold(detail::runtime, element_, -1);
    }

    Task get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept {
      // In a coroutine that has been suspended, what is at work is what it has waited for.
      detail::guarded([] { throw; }, entry_ ? entry_->name : nullptr);
    }
    /// The chare whose coroutine it is; null: no chare's.
    [[nodiscard]] isthmus_chare_element* element() const noexcept { return element_; }

   private:
    inline void hold(const Chare& self);
    isthmus_chare_element* element_ = nullptr;
    const isthmus_chare_item* entry_ = isthmus_chare_current(detail::runtime);
  };
};

namespace detail {

/// A coroutine that waits, and whose it is.
struct Suspended {
  std::coroutine_handle<> handle;
  isthmus_chare_element* element = nullptr;

  static Suspended of(std::coroutine_handle<Task::promise_type> waiting) {
    return {waiting, waiting.promise().element()};
  }
  void resume() const {
    void* const address = handle.address();
    isthmus_chare_resume(
        runtime, element, [](void* frame) { std::coroutine_handle<>::from_address(frame).resume(); },
        address);
  }
};

/// `void` as a value.
struct Void {};
template <class T>
using ValueOf = std::conditional_t<std::is_void_v<T>, Void, T>;

template <class T>
struct FutureState {
  std::optional<ValueOf<T>> value;
  std::optional<Suspended> waiting;
};
/// What forgets the futures of each type.
inline std::vector<void (*)()>& future_types() {
  static std::vector<void (*)()> all;
  return all;
}
template <class T>
struct FutureStates : std::unordered_map<std::uint64_t, FutureState<T>> {
  FutureStates();
};
template <class T>
FutureStates<T>& future_states() {
  static FutureStates<T> all;
  return all;
}
template <class T>
FutureStates<T>::FutureStates() {
  future_types().push_back([] { future_states<T>().clear(); });
}
/// Ends all coroutines, which are suspended, and forgets all futures: the process goes back to a checkpoint.
inline void forget_waiting() {
  while (live_tasks.next != &live_tasks)
    std::coroutine_handle<Task::promise_type>::from_promise(
        static_cast<Task::promise_type&>(*live_tasks.next))
        .destroy();
  for (void (*const forget)() : future_types())
    forget();
}
inline std::uint64_t futures_made = 0;
/// Futures are no part of a checkpoint: those that were made before the process went back to one are no more.
/// The upper bits of a future's number say how often it had.
inline constexpr int rollback_shift = 40;
inline std::uint64_t next_future() {
  return (std::uint64_t{isthmus_chare_rollbacks(runtime)} << rollback_shift) | ++futures_made;
}
inline bool is_of_before(std::uint64_t future) {
  return future >> rollback_shift != isthmus_chare_rollbacks(runtime);
}

template <class T>
void put_future(std::uint64_t id, ValueOf<T> value) {
  if (is_of_before(id)) fail("a future gets a value that was made before a process died");
  const auto found = future_states<T>().find(id);
  if (found == future_states<T>().end()) fail("a future gets a value that nobody waits for: it has had one");
  FutureState<T>& state = found->second;
  if (state.value) fail("a future gets a second value");
  state.value.emplace(std::move(value));
  if (state.waiting) std::exchange(state.waiting, std::nullopt)->resume();
}
template <class T>
void set_future(std::uint64_t id, T value) {
  put_future<T>(id, std::move(value));
}
inline void set_void_future(std::uint64_t id) {
  put_future<void>(id, Void{});
}

template <class T>
const isthmus_chare_item* future_item() {
  if constexpr (std::is_void_v<T>)
    return FunctionItem<&set_void_future>::get();
  else
    return FunctionItem<&set_future<T>>::get();
}

}  // namespace detail

/// A value that will be there. It lives in the process that has made it, and only there it is awaited, once;
/// copies may go anywhere, and one of them gives the value.
template <class T = void>
class Future {
 public:
  /// One that names nothing: to be assigned, or read from an archive.
  Future() = default;
  [[nodiscard]] static Future make() {
    Future future;
    future.rank_ = isthmus_chare_rank(detail::runtime);
    future.id_ = detail::next_future();
    detail::future_states<T>().try_emplace(future.id_);
    return future;
  }

  /// What gives the value.
  [[nodiscard]] Callback<T> callback() const {
    isthmus_chare_callback what{};
    what.target.kind = ISTHMUS_CHARE_TO_FUNCTION;
    what.target.rank = rank_;
    what.prefix = id_;
    what.has_prefix = 1;
    what.item = detail::future_item<T>()->number;
    return {what};
  }
  template <class... V>
  void set(const V&... value) const {
    callback()(value...);
  }
  /// Whether the value is there. In its own process.
  [[nodiscard]] bool ready() const { return state().value.has_value(); }

  /// `co_await future`: the value, which is the awaiter's.
  auto operator co_await() const {
    struct Awaiter {
      const Future& future;
      bool await_ready() const { return future.ready(); }
      void await_suspend(std::coroutine_handle<Task::promise_type> waiting) const {
        auto& state = future.state();
        if (state.waiting) detail::fail("two coroutines await one future");
        state.waiting = detail::Suspended::of(waiting);
      }
      T await_resume() const {
        auto value = std::move(future.state().value);
        detail::future_states<T>().erase(future.id_);
        if constexpr (!std::is_void_v<T>) return std::move(*value);
      }
    };
    return Awaiter{*this};
  }

 private:
  detail::FutureState<T>& state() const {
    if (id_ != 0 && detail::is_of_before(id_))
      detail::fail("a future is awaited that was made before a process died");
    const auto found = detail::future_states<T>().find(id_);
    if (rank_ != isthmus_chare_rank(detail::runtime) || found == detail::future_states<T>().end())
      detail::fail("a future is awaited a second time, or in a process that has not made it");
    return found->second;
  }

  std::uint32_t rank_ = 0;
  std::uint64_t id_ = 0;
};

/// Messages that a chare takes when it wants them: a member that is invoked as an entry is
/// (`proxy.invoke<&Cell::borders>(step, values)`) and keeps what has come until a coroutine asks for it.
template <class... T>
class Inbox {
 public:
  using Arguments = std::tuple<T...>;

  /// `auto [step, values] = co_await inbox.next();`: the oldest message.
  [[nodiscard]] auto next() {
    return next([](const T&...) { return true; });
  }
  /// The oldest message for which `fits(...)` is true; others stay.
  template <class Fits>
  [[nodiscard]] auto next(Fits fits) {
    return Awaiter{*this, Condition(std::move(fits)), std::nullopt};
  }
  /// How many messages wait.
  [[nodiscard]] std::size_t size() const noexcept { return kept_.size(); }

  /// With those that wait for a coroutine; there must be no coroutine that waits for them.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(kept_);
  }

  /// What an invocation does.
  void put(Arguments&& message) {
    for (auto each = waiting_.begin(); each != waiting_.end(); ++each)
      if (std::apply((*each)->fits, message)) {
        Awaiter& awaiter = **each;
        waiting_.erase(each);
        awaiter.taken = std::move(message);
        return awaiter.suspended.resume();
      }
    kept_.push_back(std::move(message));
  }

 private:
  using Condition = std::function<bool(const T&...)>;
  struct Awaiter {
    Inbox& inbox;
    Condition fits;
    std::optional<Arguments> taken;
    detail::Suspended suspended{};

    bool await_ready() {
      const auto found = std::ranges::find_if(
          inbox.kept_, [this](const Arguments& message) { return std::apply(fits, message); });
      if (found == inbox.kept_.end()) return false;
      taken = std::move(*found);
      inbox.kept_.erase(found);
      return true;
    }
    void await_suspend(std::coroutine_handle<Task::promise_type> waiting) {
      suspended = detail::Suspended::of(waiting);
      inbox.waiting_.push_back(this);
    }
    Arguments await_resume() { return std::move(*taken); }
  };

  std::list<Arguments> kept_;
  std::list<Awaiter*> waiting_;  ///< their coroutines' frames own them
};

}  // namespace isthmus::chare

#endif
