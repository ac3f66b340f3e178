#include "place/cpu_set.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <system_error>

namespace isthmus {

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr unsigned most_cpus = 1U << 20;

/// Takes a number off the front of `text`.
std::optional<unsigned> take_number(std::string_view& text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value >= most_cpus) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

void CpuSet::insert(unsigned cpu) {
  if (cpu / word_bits >= words_.size()) words_.resize(cpu / word_bits + 1);
  words_[cpu / word_bits] |= std::uint64_t{1} << cpu % word_bits;
}

bool CpuSet::contains(unsigned cpu) const noexcept {
  return cpu / word_bits < words_.size() && (words_[cpu / word_bits] >> cpu % word_bits & 1U) != 0;
}

bool CpuSet::empty() const noexcept {
  return size() == 0;
}

std::size_t CpuSet::size() const noexcept {
  std::size_t count = 0;
  for (const std::uint64_t word : words_)
    count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

std::optional<unsigned> CpuSet::first() const noexcept {
  for (std::size_t i = 0; i < words_.size(); ++i)
    if (words_[i] != 0)
      return static_cast<unsigned>(i * word_bits + static_cast<unsigned>(std::countr_zero(words_[i])));
  return std::nullopt;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (std::size_t i = 0; i < other.words_.size(); ++i)
    words_[i] |= other.words_[i];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  words_.resize(std::min(words_.size(), other.words_.size()));
  for (std::size_t i = 0; i < words_.size(); ++i)
    words_[i] &= other.words_[i];
  return *this;
}

std::string CpuSet::to_string() const {
  std::string text;
  const auto end = static_cast<unsigned>(words_.size() * word_bits);
  for (unsigned cpu = 0; cpu < end; ++cpu) {
    if (!contains(cpu)) continue;
    unsigned last = cpu;
    while (contains(last + 1))
      ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpu);
    if (last > cpu) text += '-' + std::to_string(last);
    cpu = last;
  }
  return text.empty() ? "none" : text;
}

Result<CpuSet> CpuSet::parse(std::string_view text) {
  CpuSet set;
  if (text == "none") return set;
  unsigned next = 0;  // ascending, so that long nonsense cannot take long
  while (true) {
    const auto first = take_number(text);
    auto last = first;
    if (first && text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number(text);
    }
    if (!first || !last || *first < next || *last < *first) break;
    for (unsigned cpu = *first; cpu <= *last; ++cpu)
      set.insert(cpu);
    next = *last + 1;
    if (text.empty()) return set;
    if (!text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  return fail(ErrorClass::arg, "not a set of hardware threads (0-3,8)");
}

Result<CpuSet> CpuSet::affinity() {
  constexpr std::size_t most_words = most_cpus / word_bits;
  CpuSet set;
  for (std::size_t words = 16; words <= most_words; words *= 2) {
    set.words_.assign(words, 0);
    if (::sched_getaffinity(0, words * sizeof(std::uint64_t),
                            reinterpret_cast<cpu_set_t*>(set.words_.data())) == 0)
      return set;
    if (errno != EINVAL) break;  // EINVAL: the kernel's mask is longer
  }
  return fail(ErrorClass::other, "sched_getaffinity: " + std::generic_category().message(errno));
}

int CpuSet::bind() const noexcept {
  const int result = ::sched_setaffinity(0, words_.size() * sizeof(std::uint64_t),
                                         reinterpret_cast<const cpu_set_t*>(words_.data()));
  return result == 0 ? 0 : errno;
}

}  // namespace isthmus
