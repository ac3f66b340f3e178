#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::tool {

/// Gets what a child has written to stderr, part by part.
using TakeErrors = std::function<void(std::string_view)>;

/// Runs a command (as `become_command`) and waits for it; its exit status as a shell gives it, or 1 where no
/// process can be made. SIGINT and SIGQUIT, which a terminal sends to both, are left to the command; SIGTERM
/// and SIGHUP are handed on to it. One command at a time. `take_errors`: gets the command's stderr; without
/// it, that is this process's. What processes write that outlive the command is lost then.
int run_command(const std::vector<std::string>& command, const TakeErrors& take_errors = {});

}  // namespace isthmus::tool
