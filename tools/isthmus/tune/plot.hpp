#pragma once

#include <string>
#include <vector>

namespace isthmus::tool {

/// Runs one of the scripts that are installed with this program and draw with python3 and matplotlib. Says on
/// stderr why where that fails.
bool run_plotter(const char* script, const std::vector<std::string>& arguments);
/// Whether it could draw; says on stderr what is missing.
bool can_plot(const char* script);

/// Draws the curves of a table into PREFIX.png and PREFIX.svg, with python3 and matplotlib. Says on stderr
/// why where that fails.
bool plot(const std::string& table, const std::string& prefix);

/// Says on stderr what is missing for `plot`, before somebody measures for minutes and waits for a drawing.
void warn_of_missing_plotter();

}  // namespace isthmus::tool
