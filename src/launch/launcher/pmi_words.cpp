#include "launch/launcher/pmi_words.hpp"

#include <algorithm>

#include "base/whole_number.hpp"

namespace isthmus::launch {

std::optional<std::string_view> pmi_word(std::string_view text, char separator, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view word = text.substr(0, end);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

std::int32_t pmi_number(std::string_view text, char separator, std::string_view name) {
  const auto value = whole_number<std::int32_t>(pmi_word(text, separator, name).value_or(""));
  return value && *value >= 0 ? *value : -1;
}

std::string pmi_shown(std::string_view text) {
  std::string shown(text.substr(0, 80));
  std::ranges::replace_if(shown, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + shown + (text.size() > 80 ? "...'" : "'");
}

std::string pmi_key(std::uint32_t rank, std::string_view key, std::size_t part) {
  return std::to_string(rank) + "-" + std::string(key) + "-" + std::to_string(part);
}

}  // namespace isthmus::launch
