#ifndef ISTHMUS_CHARE_BALANCE_HPP
#define ISTHMUS_CHARE_BALANCE_HPP

#include <isthmus/chare/item.hpp>

#include <cstdint>
#include <span>

namespace isthmus::chare {

/// A chare, as a balancer sees it: `index`, `seconds` (its load), `rank` (where it is), `is_fixed` (1: it
/// cannot move now), and `to`, where it is to be, which is `rank` before.
using Load = isthmus_chare_load;

// Balancers: functions that get all chares of a collection, in no order, and set `to`. They are called in the
// process that has made the collection. A program's own is one like these:
//
//     void all_to_the_last(std::span<chare::Load> chares, std::uint32_t processes) {
//       for (chare::Load& each : chares)
//         each.to = processes - 1;
//     }
//
// What it throws, a rank that does not exist, and moving what is fixed end the job with a sentence.

/// The heaviest first, each to where the least is. Balances best; may move most of them.
inline void greedy(std::span<Load> chares, std::uint32_t processes) {
  isthmus_chare_balance balance{chares.data(), chares.size(), processes};
  isthmus_chare_place_greedily(&balance);
}
/// Only from processes with more than 1.02 of the mean, to those with the least: few move.
inline void refine(std::span<Load> chares, std::uint32_t processes) {
  isthmus_chare_balance balance{chares.data(), chares.size(), processes};
  isthmus_chare_refine(&balance);
}

namespace detail {

template <class T, auto balancer>
struct BalancerItem {
  static void invoke(void* object, void* arguments, std::size_t count, int) {
    const auto processes = static_cast<const isthmus_chare_balance*>(object)->processes;
    guarded([&] { balancer(std::span(static_cast<Load*>(arguments), count), processes); });
  }
  static inline Item item{typeid(BalancerItem).name(), ISTHMUS_CHARE_BALANCER, TypeItem<T>::get(),
                          [](Item& made) { made.invoke = invoke; }};
  static const isthmus_chare_item* get() { return &item; }
};

/// The class of an entry.
template <class Entry>
struct ClassOf;
template <class R, class C>
struct ClassOf<R C::*> {
  using type = C;
};

}  // namespace detail
}  // namespace isthmus::chare

#endif
