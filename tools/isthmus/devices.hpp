#pragma once

#include <string>
#include <utility>
#include <vector>

namespace isthmus::tool {

/// Name and what it means, for people.
using Row = std::pair<std::string, std::string>;

/// Free and total room of `/dev/shm`, and whether it matters.
Row shared_memory_folder();
/// Network devices of the kernel and what may go over each.
std::vector<Row> network_devices();
/// Whether the parts that are linked with foreign libraries can be loaded, and what they are for.
std::vector<Row> loadable_parts();
/// Memory that virtual machines of one host share.
std::vector<Row> shared_devices();

}  // namespace isthmus::tool
