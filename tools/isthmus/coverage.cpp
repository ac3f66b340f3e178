#include "abi/core/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"

namespace isthmus::tool {
namespace {

struct Chapter {
  std::string_view name;
  std::size_t functions = 0;
  std::vector<std::string_view> missing;

  [[nodiscard]] std::size_t implemented() const { return functions - missing.size(); }
};

std::vector<Chapter> chapters() {
  std::vector<Chapter> result;
  for (const abi::CoverageRow& function : abi::coverage()) {
    if (result.empty() || result.back().name != function.chapter)
      result.push_back({.name = function.chapter});
    ++result.back().functions;
    if (!function.implemented) result.back().missing.push_back(function.function);
  }
  return result;
}

bool contains_word(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

void row(std::string_view name, std::size_t implemented, std::size_t functions) {
  fmt::print("{:<48}{:>6} of {:<6}{:>4} %\n", name, implemented, functions,
             functions ? implemented * 100 / functions : 100);
}

}  // namespace

int print_coverage(const std::string& wanted) {
  std::size_t functions = 0;
  std::size_t implemented = 0;
  bool found = wanted.empty();
  for (const Chapter& chapter : chapters()) {
    functions += chapter.functions;
    implemented += chapter.implemented();
    const bool listed = wanted == "all" || (!wanted.empty() && contains_word(chapter.name, wanted));
    if (!wanted.empty() && !listed) continue;
    found = true;
    row(chapter.name, chapter.implemented(), chapter.functions);
    if (listed)
      for (const std::string_view name : chapter.missing)
        fmt::print("    not yet: {}\n", name);
  }
  if (!found) {
    fmt::print(stderr, "isthmus: no chapter's name contains '{}'\n", wanted);
    return 1;
  }
  if (wanted.empty() || wanted == "all") row("MPI 5.0, all functions of mpi.h", implemented, functions);
  return 0;
}

}  // namespace isthmus::tool
