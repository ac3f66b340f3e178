#include "comm/factors.hpp"

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <span>
#include <unordered_map>

namespace isthmus {
namespace {

/// In ascending order, each as often as it divides.
std::vector<int> primes_of(int number) {
  std::vector<int> primes;
  for (int prime = 2; std::int64_t{prime} * prime <= number; prime += prime == 2 ? 1 : 2)
    for (; number % prime == 0; number /= prime)
      primes.push_back(prime);
  if (number > 1) primes.push_back(number);
  return primes;
}

/// Of the product of `primes`, in ascending order.
std::vector<int> divisors_of(std::span<const int> primes) {
  std::vector<int> divisors{1};
  for (std::size_t i = 0; i < primes.size();) {
    const std::size_t known = divisors.size();
    const int prime = primes[i];
    for (std::int64_t power = prime; i < primes.size() && primes[i] == prime; ++i, power *= prime)
      for (std::size_t k = 0; k < known; ++k)
        divisors.push_back(static_cast<int>(divisors[k] * power));
  }
  std::ranges::sort(divisors);
  return divisors;
}

/// Whether `base` to the power of `exponent` is at most `limit`.
bool power_is_at_most(std::int64_t base, std::size_t exponent, std::int64_t limit) {
  std::int64_t power = 1;
  for (; exponent > 0 && base > 1; --exponent) {
    power *= base;
    if (power > limit) return false;
  }
  return power <= limit;
}

/// Whether `count` factors of at most `most` can reach `product`.
bool reaches(std::int64_t most, std::size_t count, std::int64_t product) {
  return !power_is_at_most(most, count, product - 1);
}

/// Looks for factors, none below `least`, of a number that `divisors` are those of.
class Search {
 public:
  Search(std::span<const int> divisors, int least) : divisors_(divisors), least_(least) {}

  /// Fills `factors`, in descending order, none above `most`: the first as small as it can be, with it the
  /// second, and so on. False if there are none.
  bool fill(int product, int most, std::span<int> factors) {
    if (!power_is_at_most(least_, factors.size(), product) || !reaches(most, factors.size(), product))
      return false;
    if (factors.size() == 1) {
      factors[0] = product;  // the bounds hold: they were just asked for
      return true;
    }
    const std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(product)} << 32 | factors.size();
    if (const auto failed = failed_.find(key); failed != failed_.end() && most <= failed->second)
      return false;
    const auto reaching = std::ranges::partition_point(
        divisors_, [&](int factor) { return factor < least_ || !reaches(factor, factors.size(), product); });
    for (auto factor = reaching; factor != divisors_.end() && *factor <= most; ++factor) {
      if (product % *factor != 0) continue;
      factors[0] = *factor;
      if (fill(product / *factor, *factor, factors.subspan(1))) return true;
    }
    failed_[key] = most;
    return false;
  }

 private:
  std::span<const int> divisors_;
  int least_;
  std::unordered_map<std::uint64_t, int>
      failed_;  ///< by product and count, the highest `most` without factors
};

/// Looks for factors, none above `most`, of a number that `divisors` are those of.
class Lift {
 public:
  Lift(std::span<const int> divisors, int most) : divisors_(divisors), most_(most) {}

  /// Fills `factors`, in descending order, none below `least`: the last as large as it can be, with it the
  /// one before, and so on. False if there are none.
  bool fill(int product, int least, std::span<int> factors) {
    if (!power_is_at_most(least, factors.size(), product) || !reaches(most_, factors.size(), product))
      return false;
    if (factors.size() == 1) {
      factors[0] = product;  // the bounds hold: they were just asked for
      return true;
    }
    const std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(product)} << 32 | factors.size();
    if (const auto failed = failed_.find(key); failed != failed_.end() && least >= failed->second)
      return false;
    const auto too_large = std::ranges::partition_point(
        divisors_, [&](int each) { return power_is_at_most(each, factors.size(), product); });
    for (const int factor : std::ranges::subrange(divisors_.begin(), too_large) | std::views::reverse) {
      if (factor < least) break;
      if (product % factor != 0) continue;
      factors.back() = factor;
      if (fill(product / factor, factor, factors.first(factors.size() - 1))) return true;
    }
    failed_[key] = least;
    return false;
  }

 private:
  std::span<const int> divisors_;
  int most_;
  std::unordered_map<std::uint64_t, int>
      failed_;  ///< by product and count, the lowest `least` without factors
};

}  // namespace

std::vector<int> closest_factors(int product, std::size_t count) {
  const std::vector<int> primes = primes_of(product);
  std::vector<int> best(count, 1);
  if (count >= primes.size()) {  // a factor 1 is needed, or no prime can be joined with another
    std::ranges::copy(primes.rbegin(), primes.rend(), best.begin());
    return best;
  }
  if (count == 0) return best;
  const std::vector<int> divisors = divisors_of(primes);
  const int lowest = *std::ranges::find_if(
      divisors, [&](int factor) { return factor >= primes.back() && reaches(factor, count, product); });
  // For each smallest factor, from the highest one down, the lowest largest factor that goes with it.
  std::int64_t difference = product;
  std::vector<int> factors(count);
  for (auto least = divisors.rbegin(); least != divisors.rend() && lowest - *least <= difference; ++least) {
    if (!power_is_at_most(*least, count, product)) continue;
    const auto most = static_cast<int>(std::min<std::int64_t>(product, *least + difference));
    if (!Search(divisors, *least).fill(product, most, factors)) continue;
    const int found = factors.front() - factors.back();
    if (found == difference) continue;
    best = factors;
    difference = found;
  }
  Lift(divisors, best.front()).fill(product, best.back(), best);
  return best;
}

}  // namespace isthmus
