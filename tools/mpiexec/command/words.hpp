#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::mpiexec {

/// `text` in words as a POSIX shell would split it: blanks between words, '...', "..." and \ to quote.
/// Nothing is expanded. Nothing if a quote is not closed.
std::optional<std::vector<std::string>> split_words(std::string_view text);

/// `word` as a shell reads it back unchanged.
std::string shell_quoted(std::string_view word);
/// All of them, with a blank between two.
std::string shell_quoted(const std::vector<std::string>& words);

/// `word` with every `name` in it replaced by `value`.
std::string replaced(std::string word, std::string_view name, std::string_view value);

}  // namespace isthmus::mpiexec
