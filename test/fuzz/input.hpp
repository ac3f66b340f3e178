#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace isthmus::fuzz {

/// Reads a fuzzer's input from front to back; zeros behind its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T take() {
    T value{};
    fill({reinterpret_cast<std::byte*>(&value), sizeof value});
    return value;
  }
  /// Below `limit`, which is at most 256.
  unsigned below(unsigned limit) { return take<std::uint8_t>() % limit; }
  template <class T, std::size_t N>
  T pick(const T (&choices)[N]) {
    return choices[below(N)];
  }
  void fill(std::span<std::byte> out) {
    const std::size_t bytes = out.size() < left_.size() ? out.size() : left_.size();
    if (bytes != 0) std::memcpy(out.data(), left_.data(), bytes);
    left_ = left_.subspan(bytes);
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace isthmus::fuzz
