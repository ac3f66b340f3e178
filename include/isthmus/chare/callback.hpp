#ifndef ISTHMUS_CHARE_CALLBACK_HPP
#define ISTHMUS_CHARE_CALLBACK_HPP

#include <isthmus/chare/item.hpp>

#include <cstdint>
#include <type_traits>
#include <vector>

namespace isthmus::chare {

/// An invocation that somebody makes later, with a value of type `T` (void: with none): the target of a
/// reduction, or an answer. Plain bytes, which may be an argument of an entry.
template <class T = void>
struct Callback {
  isthmus_chare_callback what;

  /// Makes the invocation.
  template <class... V>
  void operator()(const V&... value) const {
    static_assert(sizeof...(V) == (std::is_void_v<T> ? 0 : 1),
                  "a callback takes one value, or none if it is of void");
    if constexpr (std::is_void_v<T>)
      isthmus_chare_call(detail::runtime, &what, nullptr, 0);
    else
      send(static_cast<const T&>(value)...);
  }

 private:
  template <class V>
  void send(const V& value) const {
    Sizer sizer;
    sizer(value);
    std::vector<unsigned char> bytes(sizer.size());
    Writer writer(bytes.data());
    writer(value);
    isthmus_chare_call(detail::runtime, &what, bytes.data(), bytes.size());
  }
};

namespace detail {

/// The value that a callback of such an entry takes.
template <class Arguments>
struct CallbackValue;
template <>
struct CallbackValue<std::tuple<>> {
  using type = void;
};
template <class T>
struct CallbackValue<std::tuple<T>> {
  using type = T;
};

template <class Entry>
auto callback_to(const isthmus_chare_target& target) {
  static_assert(buffers_in<typename Entry::Arguments> == 0, "callbacks carry no buffers");
  using Value = typename CallbackValue<typename Entry::Arguments>::type;
  isthmus_chare_callback what{};
  what.target = target;
  what.item = Entry::get()->number;
  return Callback<Value>{what};
}

}  // namespace detail

/// Calls `function` in process `rank`.
template <auto function>
[[nodiscard]] auto callback_function(std::uint32_t rank) {
  isthmus_chare_target target{};
  target.kind = ISTHMUS_CHARE_TO_FUNCTION;
  target.rank = rank;
  return detail::callback_to<detail::FunctionItem<function>>(target);
}

// --- reductions

// What combines two values: an object of an empty class that changes `into`. A program's own is one like
// these, and is named where chares contribute. The order in which values are combined is not defined.

/// Of vectors of equal length and arrays, item by item.
template <class Combine>
struct Elementwise {
  template <class T>
  void operator()(T& into, const T& value) const {
    if constexpr (detail::ContainerLike<T> || detail::is_array<T>) {
      if (into.size() != value.size())
        detail::fail("a reduction combines " + std::to_string(into.size()) + " values with " +
                     std::to_string(value.size()));
      auto each = value.begin();
      for (auto& item : into)
        (*this)(item, *each++);
    } else {
      Combine()(into, value);
    }
  }
};
namespace detail {
struct AddTo {
  template <class T>
  void operator()(T& into, const T& value) const {
    into += value;
  }
};
struct LessOf {
  template <class T>
  void operator()(T& into, const T& value) const {
    if (value < into) into = value;
  }
};
struct MoreOf {
  template <class T>
  void operator()(T& into, const T& value) const {
    if (into < value) into = value;
  }
};
struct AllOf {
  template <class T>
  void operator()(T& into, const T& value) const {
    into = static_cast<T>(into && value);
  }
};
struct AnyOf {
  template <class T>
  void operator()(T& into, const T& value) const {
    into = static_cast<T>(into || value);
  }
};
}  // namespace detail
using Sum = Elementwise<detail::AddTo>;
using Min = Elementwise<detail::LessOf>;
using Max = Elementwise<detail::MoreOf>;
using LogicalAnd = Elementwise<detail::AllOf>;
using LogicalOr = Elementwise<detail::AnyOf>;

namespace detail {

template <class Combine, class T>
struct ReducerItem {
  static void* copy(const void* value) {
    return guarded([&]() -> void* { return new T(*static_cast<const T*>(value)); });
  }
  static void combine(void* into, const void* value) {
    guarded([&] { Combine()(*static_cast<T*>(into), *static_cast<const T*>(value)); });
  }
  static inline Item item{typeid(ReducerItem).name(), ISTHMUS_CHARE_REDUCER, nullptr, [](Item& made) {
                            made.make = make_value<T>;
                            made.copy = copy;
                            made.combine = combine;
                            made.measure = measure_value<T>;
                            made.write = write_value<T>;
                            made.destroy = delete_value<T>;
                          }};
  static const isthmus_chare_item* get() { return &item; }
};

/// Of a reduction without a value: that all have come.
struct Nothing {
  template <class Archive>
  void serialize(Archive&) {}
};
struct CombineNothing {
  void operator()(Nothing&, const Nothing&) const {}
};

}  // namespace detail
}  // namespace isthmus::chare

#endif
