#pragma once

#include <string>

namespace isthmus::tool {

/// What came of trying it between two processes that have the same parent, as the ranks of a job have.
struct MemoryAccess {
  std::string read_refusal;   ///< why process_vm_readv does not work, empty if it does
  std::string write_refusal;  ///< the same of process_vm_writev
};

MemoryAccess try_memory_access();

}  // namespace isthmus::tool
