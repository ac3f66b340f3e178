#include "vrank/process/run.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ios>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/whole_number.hpp"
#include "vrank/environment.hpp"
#include "vrank/process/process.hpp"
#include "vrank/process/status.hpp"
#include "vrank/program_file.hpp"
#include "vrank/rank_copy.hpp"

namespace isthmus::vrank {
namespace {

/// Else the rank that first uses one allocates the buffer of all.
void give_streams_buffers() {
  for (std::FILE* const stream : {stdin, stdout})
    std::setvbuf(stream, static_cast<char*>(std::malloc(BUFSIZ)),
                 ::isatty(::fileno(stream)) != 0 ? _IOLBF : _IOFBF, BUFSIZ);
}

/// Beside the addresses of ranks, and of the process's own heap.
constexpr std::uint64_t spare_address = std::uint64_t{14} << 40;

/// What the program asks for is there before ranks are, and alike in all processes: what libraries make when
/// they begin, ranks may have addresses of. It comes with a copy that nobody runs.
Result<> load_libraries(const ProgramFile& file) {
  load_needed(file);
  return RankCopy::make_room(file, spare_address);
}

}  // namespace

int run_process(int count, char** arguments, std::size_t thread_local_room, const Edge& edge,
                const OwnMemory* memory) {
  const char* const virtual_ranks = std::getenv(launcher_variable::virtual_ranks);
  const char* const workers = std::getenv(launcher_variable::workers);
  if (count < 3 || !virtual_ranks) {
    warn(
        "this program holds the ranks of a process that has several, and is started by Isthmus' own mpiexec: "
        "mpiexec -n N --ranks-per-process M PROGRAM; under another launcher each rank is a process");
    return 2;
  }
  // Copies of the program take what std::cout is when they are loaded.
  const std::ios_base::Init streams;
  if (memory) give_streams_buffers();
  auto file = ProgramFile::open(arguments[1], thread_local_room);
  if (!file) {
    warn(file.error().text());
    return status_cannot_run;
  }
  if (memory && !file->is_executable()) {
    warn(std::string(arguments[1]) +
         " is a shared object, and ranks of such a program cannot go on in other "
         "processes (mpiexec --migratable): link it as an executable");
    return status_cannot_run;
  }
  if (const auto loaded = memory ? load_libraries(*file) : Result<>(); !loaded) {
    warn(std::string(arguments[1]) + " cannot be loaded: " + loaded.error().text());
    return status_cannot_run;
  }
  // Up to here all processes of the job have done the same.
  const std::uintptr_t process_top = memory ? memory->process_top() : 0;
  const std::uint32_t worker_count = whole_number<std::uint32_t>(workers ? workers : "").value_or(1);
  // It lives as long as the process, whose exit handlers ask for it.
  auto& process = *new Process(std::move(*file), environments_from(virtual_ranks),
                               {arguments + 2, arguments + count}, edge, memory, process_top);
  if (auto prepared = process.prepare(worker_count); !prepared) {
    warn(prepared.error().text());
    return 1;
  }
  ::on_exit([](int status, void* of) { static_cast<Process*>(of)->exit_from_library(status); }, &process);
  return process.run();
}

}  // namespace isthmus::vrank
