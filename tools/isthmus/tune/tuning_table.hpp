#pragma once

#include <expected>
#include <string>
#include <vector>

#include "tune/tuning_questions.hpp"

namespace isthmus::tool {

/// The table as JSON text, which `tuning::parse` reads.
std::string table_text(const std::vector<Answered>& answers);

/// Writes `text` to `path`, whose folder is made: all of it or, on an error or a signal, nothing.
std::expected<void, std::string> write_whole(const std::string& path, const std::string& text);

}  // namespace isthmus::tool
