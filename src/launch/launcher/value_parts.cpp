#include "launch/launcher/value_parts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace isthmus::launch {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr std::array<std::int8_t, 256> digits = [] {
  std::array<std::int8_t, 256> table{};
  table.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    table[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  return table;
}();

std::string encode(std::string_view value) {
  std::string text;
  text.reserve(value.size() / 3 * 4 + 4);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char byte : value) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6)
      text += alphabet[bits >> (count - 6) & 63];
    bits &= (1U << count) - 1;
  }
  if (count > 0) text += alphabet[bits << (6 - count) & 63];
  return text;
}

std::unexpected<Error> garbled() {
  return fail(ErrorClass::other, "the launcher's key-value space has garbled a value");
}

Result<std::string> decode(std::string_view text) {
  std::string value;
  value.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char character : text) {
    const std::int8_t digit = digits[static_cast<unsigned char>(character)];
    if (digit < 0) return garbled();
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      value += static_cast<char>(bits >> count);
      bits &= (1U << count) - 1;
    }
  }
  if (count >= 6 || bits != 0) return garbled();
  return value;
}

}  // namespace

std::vector<std::string> to_parts(std::string_view value, std::size_t longest) {
  constexpr std::size_t head = 11;  // ten digits and the dot
  const std::string text = encode(value);
  const std::size_t first = std::min(text.size(), longest - head);
  const std::size_t count = 1 + (text.size() - first + longest - 1) / longest;
  std::vector<std::string> parts{std::to_string(count) + "." + text.substr(0, first)};
  for (std::size_t at = first; at < text.size(); at += longest)
    parts.push_back(text.substr(at, longest));
  return parts;
}

Result<std::string> from_parts(const std::function<Result<std::string>(std::size_t)>& part) {
  auto text = part(0);
  if (!text) return text;
  std::uint32_t count = 0;
  const char* const end = text->data() + text->size();
  const auto [dot, error] = std::from_chars(text->data(), end, count);
  if (error != std::errc{} || dot == end || *dot != '.' || count == 0) return garbled();
  text->erase(0, static_cast<std::size_t>(dot - text->data()) + 1);
  for (std::uint32_t i = 1; i < count; ++i) {
    auto more = part(i);
    if (!more) return more;
    if (more->empty()) return garbled();
    *text += *more;
  }
  return decode(*text);
}

}  // namespace isthmus::launch
