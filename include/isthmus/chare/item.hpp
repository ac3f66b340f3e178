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
template <class T>
class DeviceBuffer;

/// Names a post entry: `void post(Post<&Cell::take>, DeviceBuffer<double>& data, int step)` is called before
/// `void take(DeviceBuffer<double> data, int step)`, and says by `data.into(...)` where the data is to go. It
/// is public, takes its other arguments by value or const&, and must not keep them.
template <auto entry>
struct Post {};

namespace detail {

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

// --- arguments that go apart

template <class T>
inline constexpr bool is_buffer = false;
template <class T>
inline constexpr bool is_buffer<DeviceBuffer<T>> = true;
/// How many of the arguments are buffers.
template <class Arguments>
inline constexpr std::uint32_t buffers_in = 0;
template <class... A>
inline constexpr std::uint32_t buffers_in<std::tuple<A...>> = (0U + ... + (is_buffer<A> ? 1U : 0U));

/// What the message itself carries.
template <class Archive, class... A>
void serialize_others(Archive& archive, A&... arguments) {
  const auto one = [&archive](auto& argument) {
    if constexpr (!is_buffer<NotConst<decltype(argument)>>) archive(argument);
  };
  (one(arguments), ...);
}
template <class Arguments>
std::size_t measure_others(const void* value) {
  return guarded([&] {
    Sizer sizer;
    std::apply([&](const auto&... each) { serialize_others(sizer, each...); },
               *static_cast<const Arguments*>(value));
    return sizer.size();
  });
}
template <class Arguments>
void write_others(const void* value, void* to) {
  guarded([&] {
    Writer writer(to);
    std::apply([&](const auto&... each) { serialize_others(writer, each...); },
               *static_cast<const Arguments*>(value));
  });
}
template <class Arguments>
void read_others(Arguments& into, const void* from, std::size_t bytes) {
  Reader reader(from, bytes);
  std::apply([&](auto&... each) { serialize_others(reader, each...); }, into);
  reader.finish();
}

/// As a post entry gets an argument.
template <class A>
using Posted = std::conditional_t<is_buffer<A>, A&, const A&>;
template <class T, auto entry, class Arguments>
inline constexpr bool has_post = false;
template <class T, auto entry, class... A>
inline constexpr bool has_post<T, entry, std::tuple<A...>> =
    requires(T& self, Posted<A>... arguments) { self.post(Post<entry>{}, arguments...); };

template <class T, class... A>
struct ConstructorItem {
  using Arguments = std::tuple<A...>;
  static_assert(buffers_in<Arguments> == 0, "constructors take no buffers");
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
struct EntryItem;

/// An entry with buffers: its post entry first, then itself.
template <class T, auto method, class Arguments>
struct BufferedEntry {
  static_assert(has_post<T, method, Arguments>,
                "an entry with buffers needs a post entry beside it that says where the data goes: a public "
                "void post(Post<&Class::entry>, DeviceBuffer<...>&, and the other arguments)");
  static_assert(buffers_in<Arguments> <= ISTHMUS_CHARE_BUFFERS, "these are too many buffers");

  /// Calls `visit` with each buffer and its number.
  template <class Visit>
  static void for_each_buffer(Arguments& arguments, Visit visit) {
    std::size_t number = 0;
    const auto one = [&](auto& argument) {
      if constexpr (is_buffer<NotConst<decltype(argument)>>) visit(argument, number++);
    };
    std::apply([&](auto&... each) { (one(each), ...); }, arguments);
  }
  static std::uint32_t sources(void* arguments, isthmus_chare_buffer* buffers) {
    guarded([&] {
      if (!buffers) return;
      for_each_buffer(*static_cast<Arguments*>(arguments),
                      [&](auto& buffer, std::size_t i) { buffers[i] = buffer.give(); });
    });
    return buffers_in<Arguments>;
  }
  static void ask(void* object, Arguments& given, isthmus_chare_buffer* buffers) {
    std::apply([&](auto&... each) { static_cast<T*>(object)->post(Post<method>{}, as_posted(each)...); },
               given);
    for_each_buffer(given, [&](auto& buffer, std::size_t i) { buffers[i] = buffer.destination(); });
  }
  template <class A>
  static Posted<A> as_posted(A& argument) {
    return argument;
  }
  static void post(void* object, void* arguments, std::size_t bytes, int packed,
                   isthmus_chare_buffer* buffers, std::uint32_t) {
    guarded([&] {
      Arguments read;
      // What is not packed has given its buffers away, and gets others in `invoke_with`.
      if (packed != 0) read_others(read, arguments, bytes);
      Arguments& given = packed != 0 ? read : *static_cast<Arguments*>(arguments);
      for_each_buffer(given, [&](auto& buffer, std::size_t i) { buffer = buffer.coming(buffers[i]); });
      ask(object, given, buffers);
    });
  }
  static void invoke_with(void* object, void* arguments, std::size_t bytes, int packed,
                          const isthmus_chare_buffer* buffers, std::uint32_t) {
    guarded([&] {
      Arguments read;
      if (packed != 0) read_others(read, arguments, bytes);
      Arguments& given = packed != 0 ? read : *static_cast<Arguments*>(arguments);
      for_each_buffer(given, [&](auto& buffer, std::size_t i) { buffer = buffer.come(buffers[i]); });
      EntryItem<T, method>::call(object, std::move(given));
    });
  }
  static void fill(Item& made) {
    made.buffers = buffers_in<Arguments>;
    made.sources = sources;
    made.post = post;
    made.invoke_with = invoke_with;
    made.measure = measure_others<Arguments>;
    made.write = write_others<Arguments>;
    made.destroy = end_value<Arguments>;
  }
};

template <class T, auto method>
struct EntryItem {
  using Arguments = typename Checked<method>::Arguments;
  static void call(void* object, Arguments&& given) {
    T& self = *static_cast<T*>(object);
    if constexpr (std::is_member_object_pointer_v<decltype(method)>)
      (self.*method).put(std::move(given));
    else
      std::apply([&self](auto&&... each) { (self.*method)(std::move(each)...); }, std::move(given));
  }
  static void invoke(void* object, void* arguments, std::size_t bytes, int packed) {
    call_packed_or_not<Arguments>(arguments, bytes, packed,
                                  [object](Arguments&& given) { call(object, std::move(given)); });
  }
  static inline Item item{typeid(EntryItem).name(), ISTHMUS_CHARE_ENTRY, TypeItem<T>::get(), [](Item& made) {
                            if constexpr (buffers_in<Arguments> != 0) {
                              BufferedEntry<T, method, Arguments>::fill(made);
                            } else {
                              made.invoke = invoke;
                              fill_arguments<Arguments>(made);
                            }
                          }};
  static const isthmus_chare_item* get() { return &item; }
};

template <auto function>
struct FunctionItem {
  using Arguments = typename Checked<function>::Arguments;
  static_assert(buffers_in<Arguments> == 0,
                "functions take no buffers: there is no chare that says where to");
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

/// The same with buffers, which are sent apart.
template <class Arguments>
void send_with_buffers(const isthmus_chare_target& target, const isthmus_chare_item* item, int priority,
                       Arguments arguments) {
  isthmus_chare_buffer buffers[buffers_in<Arguments>];
  const std::uint32_t count = item->sources(&arguments, buffers);
  const std::size_t bytes = item->measure(&arguments);
  void* const to = isthmus_chare_begin_with(runtime, &target, item, bytes, priority, buffers, count);
  item->write(&arguments, to);
  isthmus_chare_send(runtime);
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
  if constexpr (buffers_in<Arguments> != 0)
    send_with_buffers(target, item, priority, Arguments(std::forward<A>(arguments)...));
  else
    send_packed<Arguments>(target, item, priority, std::forward<A>(arguments)...);
}

}  // namespace detail
}  // namespace isthmus::chare

#endif
