#include "base/settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "commands.hpp"
#include "route/tuning.hpp"

namespace isthmus::tool {

int print_settings() {
  auto settings = Settings::read(environ);
  if (!settings) {
    fmt::print(stderr, "isthmus: {}\n", settings.error().text());
    return 1;
  }
  if (const std::string refused = tuning::apply(*settings); !refused.empty())
    fmt::print(stderr, "isthmus: warning: {}\n", refused);
  fmt::print("{:<32}{:<12}{:<14}{}\n", "variable", "value", "from", "meaning");
  for (const SettingDescription& setting : describe(*settings)) {
    fmt::print("{:<32}{:<12}{:<14}{}\n", setting.variable, setting.value, name_of(setting.origin),
               setting.documentation);
    fmt::print("{:<58}Allowed: {}.", "", setting.allowed);
    if (setting.origin != Origin::standard) fmt::print(" Default: {}.", setting.default_value);
    fmt::print("\n");
  }
  for (const std::string& warning : Settings::unknown_variables(environ))
    fmt::print(stderr, "isthmus: warning: {}\n", warning);
  return 0;
}

}  // namespace isthmus::tool
