#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::mpiexec {

/// Numbers and texts one after the other, for a frame between mpiexecs of the same architecture.
class Packer {
 public:
  Packer& number(std::uint32_t value);
  Packer& text(std::string_view value);
  Packer& texts(const std::vector<std::string>& values);
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads them back. What is not there reads as 0 or empty, and `complete` says so.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}
  std::uint32_t number();
  std::string text();
  std::vector<std::string> texts();
  /// Whether all that was asked for was there, and nothing is left.
  [[nodiscard]] bool complete() const noexcept { return !failed_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace isthmus::mpiexec
