#pragma once

namespace isthmus {

/// By it mpiexec gives a rank that may not see the folder of `Settings::trace` a file to write to, which
/// mpiexec reads when the rank has ended: the number of a descriptor, or a path.
inline constexpr const char* trace_file_variable = "ISTHMUS_TRACE_FILE";

}  // namespace isthmus
