#pragma once

#include <string>

namespace isthmus::tool {

/// Draws the curves of a table into PREFIX.png and PREFIX.svg, with python3 and matplotlib. Says on stderr
/// why where that fails.
bool plot(const std::string& table, const std::string& prefix);

/// Says on stderr what is missing for `plot`, before somebody measures for minutes and waits for a drawing.
void warn_of_missing_plotter();

}  // namespace isthmus::tool
