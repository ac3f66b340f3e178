#include "talk/pack.hpp"

#include <cstring>

namespace isthmus::mpiexec {

Packer& Packer::number(std::uint32_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

Packer& Packer::text(std::string_view value) {
  number(static_cast<std::uint32_t>(value.size()));
  bytes_ += value;
  return *this;
}

Packer& Packer::texts(const std::vector<std::string>& values) {
  number(static_cast<std::uint32_t>(values.size()));
  for (const std::string& value : values)
    text(value);
  return *this;
}

std::uint32_t Unpacker::number() {
  std::uint32_t value = 0;
  failed_ = failed_ || bytes_.size() < sizeof value;
  if (failed_) return 0;
  std::memcpy(&value, bytes_.data(), sizeof value);
  bytes_.remove_prefix(sizeof value);
  return value;
}

std::string Unpacker::text() {
  const std::uint32_t size = number();
  failed_ = failed_ || bytes_.size() < size;
  if (failed_) return {};
  std::string value(bytes_.substr(0, size));
  bytes_.remove_prefix(size);
  return value;
}

std::vector<std::string> Unpacker::texts() {
  std::vector<std::string> values;
  for (std::uint32_t left = number(); left > 0 && !failed_; --left)
    values.push_back(text());
  return values;
}

}  // namespace isthmus::mpiexec
