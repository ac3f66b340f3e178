#ifndef ISTHMUS_CHARE_ITEM_HPP
#define ISTHMUS_CHARE_ITEM_HPP

#include <isthmus/chare_runtime.h>
#include <isthmus/chare/archive.hpp>

#include <exception>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

/// What programs register, and that they do it by using it: `proxy.invoke<&Cell::start>()` makes an item of
/// the entry before `main` begins.
namespace isthmus::chare {

class Task;
template <class... T>
class Inbox;

namespace detail {

/// Of `run`, while it runs.
inline isthmus_chare_runtime* runtime = nullptr;

/// `entry`: the name of the item whose coroutine is at work; null: what is at work is what is being called.
[[noreturn]] inline void fail(const std::string& reason, const char* entry = nullptr) {
  isthmus_chare_fail(runtime, reason.c_str(), entry);
  std::terminate();  // it does not return
}

/// Calls `body`. What it throws ends the job: no exception passes through the library.
template <class Body>
auto guarded(Body&& body, const char* entry = nullptr) noexcept {
  try {
    return body();
  } catch (const ArchiveError& error) {
    fail(error.what(), entry);
  } catch (const std::exception& error) {
    fail(std::string("it has thrown: ") + error.what(), entry);
  } catch (...) {
    fail("it has thrown something that is no std::exception", entry);
  }
}

inline std::vector<isthmus_chare_item*>& items() {
  static std::vector<isthmus_chare_item*> all;
  return all;
}

struct Item : isthmus_chare_item {
  /// `fill` sets the functions.
  template <class Fill>
  Item(const char* its_name, std::uint32_t its_kind, const isthmus_chare_item* its_type, Fill fill)
      : isthmus_chare_item{} {
    name = its_name;
    kind = its_kind;
    type = its_type;
    fill(*this);
    items().push_back(this);
  }
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;
};

template <class T>
std::size_t measure_value(const void* value) {
  return guarded([&] {
    Sizer sizer;
    sizer(*static_cast<const T*>(value));
    return sizer.size();
  });
}
template <class T>
void write_value(const void* value, void* to) {
  guarded([&] {
    Writer writer(to);
    writer(*static_cast<const T*>(value));
  });
}
template <class T>
void* make_value(const void* from, std::size_t bytes) {
  return guarded([&]() -> void* {
    auto made = std::make_unique<T>();
    Reader reader(from, bytes);
    reader(*made);
    reader.finish();
    return made.release();
  });
}
template <class T>
void delete_value(void* value) {
  guarded([&] { delete static_cast<T*>(value); });
}
template <class T>
void end_value(void* value) {
  static_cast<T*>(value)->~T();
}

// --- classes and constructors

template <class T>
struct TypeItem {
  static constexpr bool can_move = HasSerialize<T, AnyArchive> && std::is_default_constructible_v<T>;
  static inline Item item{typeid(TypeItem).name(), ISTHMUS_CHARE_TYPE, nullptr, [](Item& made) {
                            made.destroy = delete_value<T>;
                            if constexpr (can_move) {
                              made.measure = measure_value<T>;
                              made.write = write_value<T>;
                              made.make = make_value<T>;
                            }
                          }};
  static const isthmus_chare_item* get() { return &item; }
};

template <class T, class... A>
struct ConstructorItem {
  using Arguments = std::tuple<A...>;
  static void* make(const void* from, std::size_t bytes) {
    return guarded([&]() -> void* {
      Arguments arguments;
      Reader reader(from, bytes);
      reader(arguments);
      reader.finish();
      return std::apply([](auto&&... each) { return new T(std::move(each)...); }, std::move(arguments));
    });
  }
  static inline Item item{typeid(ConstructorItem).name(), ISTHMUS_CHARE_CONSTRUCTOR, TypeItem<T>::get(),
                          [](Item& made) { made.make = make; }};
  static const isthmus_chare_item* get() { return &item; }
};

// --- entries and functions

template <class Callable>
struct Signature;
template <class R, class C, class... P>
struct Signature<R (C::*)(P...)> {
  using Result = R;
  using Arguments = std::tuple<std::decay_t<P>...>;
  static constexpr bool by_value = (!std::is_reference_v<P> && ...);
  static constexpr bool can_take =
      ((!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>) && ...);
};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const> : Signature<R (C::*)(P...)> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) noexcept> : Signature<R (C::*)(P...)> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const noexcept> : Signature<R (C::*)(P...)> {};
template <class R, class... P>
struct Signature<R (*)(P...)> : Signature<R (Item::*)(P...)> {};
template <class R, class... P>
struct Signature<R (*)(P...) noexcept> : Signature<R (Item::*)(P...)> {};
/// A mailbox that is a member: invoking it puts a message into it.
template <class C, class... T>
struct Signature<Inbox<T...> C::*> {
  using Result = void;
  using Arguments = std::tuple<T...>;
  static constexpr bool by_value = true;
  static constexpr bool can_take = true;
};

template <auto callable>
struct Checked : Signature<std::remove_const_t<decltype(callable)>> {
  using Base = Signature<std::remove_const_t<decltype(callable)>>;
  static_assert(std::is_void_v<typename Base::Result> || std::is_same_v<typename Base::Result, Task>,
                "an entry returns void or isthmus::chare::Task: nobody waits for it");
  static_assert(Base::can_take, "an entry takes its arguments by value, by const& or by &&");
  static_assert(Base::by_value || !std::is_same_v<typename Base::Result, Task>,
                "a coroutine takes its arguments by value: they must live as long as it does");
  static_assert(alignof(typename Base::Arguments) <= 16, "arguments are aligned to 16 bytes at most");
};

template <class Arguments, class Call>
void call_packed_or_not(void* arguments, std::size_t bytes, int packed, Call call) {
  guarded([&] {
    if (packed == 0) return call(std::move(*static_cast<Arguments*>(arguments)));
    Arguments read;
    Reader reader(arguments, bytes);
    reader(read);
    reader.finish();
    call(std::move(read));
  });
}

/// The parts of an item that follow from the type of its arguments.
template <class Arguments>
void fill_arguments(Item& item) {
  item.measure = measure_value<Arguments>;
  item.write = write_value<Arguments>;
  item.destroy = end_value<Arguments>;
}

template <class T, auto method>
struct EntryItem {
  using Arguments = typename Checked<method>::Arguments;
  static void invoke(void* object, void* arguments, std::size_t bytes, int packed) {
    call_packed_or_not<Arguments>(arguments, bytes, packed, [object](Arguments&& given) {
      T& self = *static_cast<T*>(object);
      if constexpr (std::is_member_object_pointer_v<decltype(method)>)
        (self.*method).put(std::move(given));
      else
        std::apply([&self](auto&&... each) { (self.*method)(std::move(each)...); }, std::move(given));
    });
  }
  static inline Item item{typeid(EntryItem).name(), ISTHMUS_CHARE_ENTRY, TypeItem<T>::get(), [](Item& made) {
                            made.invoke = invoke;
                            fill_arguments<Arguments>(made);
                          }};
  static const isthmus_chare_item* get() { return &item; }
};

template <auto function>
struct FunctionItem {
  using Arguments = typename Checked<function>::Arguments;
  static void invoke(void*, void* arguments, std::size_t bytes, int packed) {
    call_packed_or_not<Arguments>(arguments, bytes, packed, [](Arguments&& given) {
      std::apply([](auto&&... each) { function(std::move(each)...); }, std::move(given));
    });
  }
  static inline Item item{typeid(FunctionItem).name(), ISTHMUS_CHARE_FUNCTION, nullptr, [](Item& made) {
                            made.invoke = invoke;
                            fill_arguments<Arguments>(made);
                          }};
  static const isthmus_chare_item* get() { return &item; }
};

// --- making invocations

inline void* begin(const isthmus_chare_target& target, const isthmus_chare_item* item, std::size_t bytes,
                   int priority) {
  return isthmus_chare_begin(runtime, &target, item, bytes, priority);
}

template <class Arguments, class... A>
void send_packed(const isthmus_chare_target& target, const isthmus_chare_item* item, int priority,
                 A&&... arguments) {
  // Without a copy where the types are those of the entry.
  if constexpr (std::is_same_v<std::tuple<std::decay_t<A>...>, Arguments>) {
    Sizer sizer;
    sizer(arguments...);
    Writer writer(begin(target, item, sizer.size(), priority));
    writer(arguments...);
    isthmus_chare_send(runtime);
  } else {
    std::apply([&](const auto&... each) { send_packed<Arguments>(target, item, priority, each...); },
               Arguments(std::forward<A>(arguments)...));
  }
}

template <class Entry, class... A>
void invoke(const isthmus_chare_target& target, int priority, A&&... arguments) {
  using Arguments = typename Entry::Arguments;
  static_assert(std::is_constructible_v<Arguments, A&&...> && std::tuple_size_v<Arguments> == sizeof...(A),
                "these are not the arguments of the entry");
  const isthmus_chare_item* const item = Entry::get();
  if (target.kind == ISTHMUS_CHARE_TO_ELEMENT) {
    if (isthmus_chare_element* const here = isthmus_chare_find(runtime, target.collection, target.index)) {
      // Nothing is packed, and what is moved from stays in this process.
      void* const memory = isthmus_chare_take(runtime, sizeof(Arguments));
      new (memory) Arguments(std::forward<A>(arguments)...);
      return isthmus_chare_post(runtime, here, item, memory, priority);
    }
  }
  send_packed<Arguments>(target, item, priority, std::forward<A>(arguments)...);
}

}  // namespace detail
}  // namespace isthmus::chare

#endif
