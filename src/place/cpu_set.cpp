#include "place/cpu_set.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>

namespace isthmus {

static_assert(std::endian::native == std::endian::little);

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

Result<CpuSet> CpuSet::affinity() {
  constexpr std::size_t most_words = std::size_t{1} << 14;  // a million hardware threads
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
