#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

/// What `isthmus info` knows of this machine, for people and for programs alike.
namespace isthmus::tool {

using Json = nlohmann::ordered_json;

struct Fact {
  std::string key;   ///< for programs: "locked_memory"
  std::string name;  ///< for people: "locked memory"
  Json value;
  std::string text;  ///< the value in words, and what it means
};

struct Section {
  std::string key;
  std::string title;
  std::vector<Fact> facts;

  void add(std::string fact, Json value, std::string text);
  /// With a name that is not the key.
  void add(std::string fact, std::string name, Json value, std::string text);
};

/// Sections as paragraphs.
void print_text(const std::vector<Section>& sections);
/// One object with an object for each section; in it, by key, `value` and `text` of each fact.
void print_json(const std::vector<Section>& sections);

/// The first line of a file, empty where it cannot be read.
std::string first_line(const std::string& path);
/// "64 MiB"
std::string bytes_text(std::uint64_t bytes);
/// "1 core", "2 cores"
std::string plural(long count, std::string_view noun);

}  // namespace isthmus::tool
