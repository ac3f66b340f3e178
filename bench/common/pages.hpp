// Page-aligned memory with a pattern in it, and the check of that pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>

namespace isthmus::bench {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Owns `bytes` of page-aligned memory, every page touched by the process that made it.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    constexpr std::size_t page = 4096;
    void* memory = std::aligned_alloc(page, (bytes + page - 1) / page * page);
    if (memory == nullptr) throw std::bad_alloc();
    memory_.reset(static_cast<std::uint8_t*>(memory));
    clear();
  }
  std::uint8_t* data() const { return memory_.get(); }
  std::size_t size() const { return bytes_; }

  void clear() {
    for (std::size_t i = 0; i < bytes_; ++i)
      memory_[i] = 0;
  }

  // The byte at offset i of what `writer` sends in round `round`: differs between neighbours, pages and
  // writers.
  static std::uint8_t expected(std::size_t i, unsigned writer, unsigned round) {
    return static_cast<std::uint8_t>(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + writer * 101 + round * 59 + 1);
  }
  void fill(unsigned writer, unsigned round) { fill(0, bytes_, writer, round); }
  void fill(std::size_t from, std::size_t bytes, unsigned writer, unsigned round) {
    for (std::size_t i = 0; i < bytes; ++i)
      memory_[from + i] = expected(i, writer, round);
  }
  // The offset of the first byte that is not what `writer` sent in `round`.
  std::optional<std::size_t> mismatch(unsigned writer, unsigned round) const {
    return mismatch(0, bytes_, writer, round);
  }
  std::optional<std::size_t> mismatch(std::size_t from, std::size_t bytes, unsigned writer,
                                      unsigned round) const {
    for (std::size_t i = 0; i < bytes; ++i)
      if (memory_[from + i] != expected(i, writer, round)) return from + i;
    return std::nullopt;
  }

 private:
  std::unique_ptr<std::uint8_t[], Free> memory_;
  std::size_t bytes_;
};

}  // namespace isthmus::bench
