#pragma once

#include <cstdint>

#include "datatype/datatype.hpp"
#include "datatype/placement.hpp"

namespace isthmus {

/// A type signature, the sequence of a message's basic types (MPI 5.0, section 5.1), as 64 bits: equal for
/// equal sequences however their types were made, and for others but once in 2^61.
class Signature {
 public:
  constexpr Signature() = default;

  static Signature of(const Datatype& type, std::int64_t count) {
    return of_one(type).repeated(static_cast<std::uint64_t>(count));
  }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return sum_; }

 private:
  constexpr Signature(std::uint64_t sum, std::uint64_t weight) noexcept : sum_(sum), weight_(weight) {}

  static Signature of_one(const Datatype& type) {
    if (const auto basic = type.as_basic()) return {static_cast<std::uint64_t>(*basic), base};
    Signature all;
    if (type.size() == 0) return all;
    for_each_placement(type, [&](const Placement& part) {
      const auto times =
          static_cast<std::uint64_t>(part.count) * static_cast<std::uint64_t>(part.blocklength);
      all = all.followed_by(of_one(*part.type).repeated(times));
      return true;
    });
    return all;
  }

  [[nodiscard]] Signature followed_by(Signature next) const noexcept {
    return {(product(sum_, next.weight_) + next.sum_) % prime, product(weight_, next.weight_)};
  }
  [[nodiscard]] Signature repeated(std::uint64_t times) const noexcept {
    Signature all;
    Signature power = *this;
    for (; times != 0; times /= 2, power = power.followed_by(power))
      if (times % 2 != 0) all = all.followed_by(power);
    return all;
  }

  static constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;
  static constexpr std::uint64_t base = 0x0b5a'd4ec'eda1'ce2b;
  static std::uint64_t product(std::uint64_t a, std::uint64_t b) noexcept {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b % prime);
  }

  std::uint64_t sum_ = 0;
  std::uint64_t weight_ = 1;  ///< base to the power of the number of basic types
};

}  // namespace isthmus
