#pragma once

#include <isthmus/device_mail.cuh>

#include <cstdint>
#include <cstring>

#include "kernels/body/meet/arguments.hpp"
#include "kernels/body/reduce.hpp"

namespace isthmus::kernel {

/// 8 bytes of data, or fewer at the end of it, as a number.
ISTHMUS_DEVICE_FUNCTION std::uint64_t load_word(const MeetSide& from, std::uint64_t at) {
  return device::detail::load_some(from.at + at, from.bytes - at);
}
ISTHMUS_DEVICE_FUNCTION void store_word(const MeetSide& to, std::uint64_t at, std::uint64_t word) {
  device::detail::store_some(to.at + at, to.bytes - at, word);
}

/// Two words of data.
struct alignas(meet_unit) MeetUnit {
  std::uint64_t words[2];
};
ISTHMUS_DEVICE_FUNCTION MeetUnit load_unit(const MeetSide& from, std::uint64_t at) {
  return {{at < from.bytes ? load_word(from, at) : 0, at + 8 < from.bytes ? load_word(from, at + 8) : 0}};
}
ISTHMUS_DEVICE_FUNCTION void store_unit(const MeetSide& to, std::uint64_t at, const MeetUnit& unit) {
  if (at < to.bytes) store_word(to, at, unit.words[0]);
  if (at + 8 < to.bytes) store_word(to, at + 8, unit.words[1]);
}

template <class T, class Operation>
ISTHMUS_DEVICE_FUNCTION MeetUnit combined_units(const MeetUnit& left, const MeetUnit& right) {
  if constexpr (Element<T>::has_vectors) {
    Vector a;
    Vector b;
    std::memcpy(&a, &left, sizeof a);
    std::memcpy(&b, &right, sizeof b);
    const Vector made = combined<T, Operation>(a, b);
    MeetUnit unit;
    std::memcpy(&unit, &made, sizeof unit);
    return unit;
  } else {
    alignas(meet_unit) Byte a[meet_unit];
    alignas(meet_unit) Byte b[meet_unit];
    std::memcpy(a, &left, sizeof a);
    std::memcpy(b, &right, sizeof b);
    ISTHMUS_UNROLL
    for (std::uint32_t at = 0; at < meet_unit; at += Element<T>::extent)
      Element<T>::template put<true>(a + at, Operation::of(Element<T>::template get<true>(a + at),
                                                           Element<T>::template get<true>(b + at)));
    MeetUnit unit;
    std::memcpy(&unit, a, sizeof unit);
    return unit;
  }
}

}  // namespace isthmus::kernel
