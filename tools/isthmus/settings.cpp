#include "base/settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "commands.hpp"

namespace isthmus::tool {

int print_settings() {
  const auto settings = Settings::read(environ);
  if (!settings) {
    fmt::print(stderr, "isthmus: {}\n", settings.error().text());
    return 1;
  }
  fmt::print("{:<28}{:<12}{:<14}{}\n", "variable", "value", "from", "meaning");
  for (const SettingDescription& setting : describe(*settings, environ)) {
    const char* origin = setting.from_environment ? "environment" : "default";
    fmt::print("{:<28}{:<12}{:<14}{}\n", setting.variable, setting.value, origin, setting.documentation);
    fmt::print("{:<54}Allowed: {}.", "", setting.allowed);
    if (setting.from_environment) fmt::print(" Default: {}.", setting.default_value);
    fmt::print("\n");
  }
  for (const std::string& warning : Settings::unknown_variables(environ))
    fmt::print(stderr, "isthmus: warning: {}\n", warning);
  return 0;
}

}  // namespace isthmus::tool
