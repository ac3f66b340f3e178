#include "command/words.hpp"

namespace isthmus::mpiexec {
namespace {

constexpr std::string_view blanks = " \t\n\r";

/// Takes one shell_quoted or escaped piece from the front of `text` into `word`; false if its end is missing.
bool take_quoted(std::string_view& text, std::string& word) {
  const char quote = text.front();
  text.remove_prefix(1);
  if (quote == '\\') {
    if (text.empty()) return false;
    word += text.front();
    text.remove_prefix(1);
    return true;
  }
  while (!text.empty() && text.front() != quote) {
    const bool escaped = quote == '"' && text.front() == '\\' && text.size() > 1 &&
                         std::string_view("\"\\$`").contains(text[1]);
    if (escaped) text.remove_prefix(1);
    word += text.front();
    text.remove_prefix(1);
  }
  if (text.empty()) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    if (text.empty()) return words;
    std::string word;
    while (!text.empty() && !blanks.contains(text.front())) {
      if (text.front() == '\'' || text.front() == '"' || text.front() == '\\') {
        if (!take_quoted(text, word)) return std::nullopt;
      } else {
        word += text.front();
        text.remove_prefix(1);
      }
    }
    words.push_back(std::move(word));
  }
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  return '\'' + replaced(std::string(word), "'", "'\\''") + '\'';
}

std::string shell_quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words)
    line += (line.empty() ? "" : " ") + shell_quoted(word);
  return line;
}

std::string replaced(std::string word, std::string_view name, std::string_view value) {
  for (std::size_t at = 0; (at = word.find(name, at)) != std::string::npos; at += value.size())
    word.replace(at, name.size(), value);
  return word;
}

}  // namespace isthmus::mpiexec
