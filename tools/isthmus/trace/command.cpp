#include "trace/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/unique_fd.hpp"
#include "child.hpp"
#include "trace/model.hpp"

namespace isthmus::tool {
namespace {

namespace fs = std::filesystem;

int complain(const std::string& text) {
  fmt::print(stderr, "isthmus: {}\n", text);
  return 1;
}

/// A folder of this user's alone, which is gone with this object.
class Folder {
 public:
  Folder() {
    const char* const base = std::getenv("TMPDIR");
    std::string name = std::string(base && *base == '/' ? base : "/tmp") + "/isthmus-trace-XXXXXX";
    if (::mkdtemp(name.data())) path_ = name;
  }
  ~Folder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  /// Empty: there is none, and errno says why.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// The bytes of a file that is one; nothing where it cannot be read.
bool read_file(const std::string& path, std::vector<std::byte>& bytes) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  bytes.resize(static_cast<std::size_t>(status.st_size));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = ::read(file.get(), bytes.data() + got, bytes.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    got += static_cast<std::size_t>(more);
  }
  bytes.resize(got);
  return true;
}

std::vector<trace::Rank> read_all(const std::string& folder) {
  std::vector<trace::Rank> ranks;
  std::error_code error;
  std::vector<std::byte> bytes;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path();
    if (!path.ends_with(".trace")) continue;
    auto rank =
        read_file(path, bytes) ? trace::read(bytes) : std::unexpected(std::string("it cannot be read"));
    if (rank)
      ranks.push_back(std::move(*rank));
    else
      complain(fmt::format("{} is left out: {}", path, rank.error()));
  }
  if (error) complain(fmt::format("{}: {}", folder, error.message()));
  return ranks;
}

int show(const std::string& folder, const TraceOptions& options) {
  const auto job = trace::analyse(read_all(folder));
  if (!job)
    return complain(job.error() +
                    (options.from_folder.empty() ? ": is it a program of Isthmus's mpiexec?" : ""));
  fmt::print(stderr, "{}", trace::summary(*job));
  if (options.summary_only) return 0;
  const std::string text = trace::to_json(*job, options.from, options.to);
  std::FILE* const file = std::fopen(options.output.c_str(), "we");
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file && std::fclose(file) == 0;
  if (!written || !closed)
    return complain(fmt::format("cannot write {}: {}", options.output, std::strerror(errno)));
  fmt::print(stderr, "{}: open it with https://ui.perfetto.dev or chrome://tracing\n", options.output);
  return 0;
}

}  // namespace

int trace_job(const TraceOptions& options) {
  if (!options.from_folder.empty()) return show(options.from_folder, options);
  const Folder folder;
  if (folder.path().empty()) return complain(fmt::format("cannot make a folder: {}", std::strerror(errno)));
  ::setenv("ISTHMUS_TRACE", folder.path().c_str(), 1);
  if (!options.limit.empty()) ::setenv("ISTHMUS_TRACE_LIMIT", options.limit.c_str(), 1);
  const int status = run_command(options.command);
  const int shown = show(folder.path(), options);
  return status != 0 ? status : shown;
}

}  // namespace isthmus::tool
