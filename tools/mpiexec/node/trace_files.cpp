#include "node/trace_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "launch/region/shared_region.hpp"
#include "launch/visit/region_socket.hpp"
#include "trace/file.hpp"
#include "trace/record.hpp"

namespace isthmus::mpiexec {
namespace {

/// Taken in one go: what a slow line carries in less than a host may be silent.
constexpr std::size_t piece = std::size_t{64} << 10;

/// A file without a name. Empty, and errno, where there is none.
UniqueFd nameless_file() {
  const char* const wanted = std::getenv("TMPDIR");
  UniqueFd file;
  // TMPDIR may be that of the head's host.
  for (const std::string& parent : {std::string(wanted ? wanted : ""), std::string("/tmp")}) {
    std::string path = parent + "/isthmus-trace.XXXXXX";
    if (file || parent.empty()) continue;
    file = UniqueFd(::mkostemp(path.data(), O_CLOEXEC));
    if (file) ::unlink(path.c_str());
  }
  return file;
}

/// A file that others can open who know its name, whoever they are in their container: the name is as hard to
/// guess as the job's key.
UniqueFd secret_file(const std::string& folder, std::string& path) {
  const auto name = launch::make_job_key();
  if (!name) return {};
  path = fmt::format("{}/{}", folder, launch::key_text(*name));
  UniqueFd file = trace::make_file(path);
  if (file) ::fchmod(file.get(), 0666);
  return file;
}

std::size_t read_piece(int file, std::uint64_t offset, std::array<char, piece>& buffer) {
  std::size_t got = 0;
  while (got < buffer.size()) {
    const ssize_t more =
        ::pread(file, buffer.data() + got, buffer.size() - got, static_cast<off_t>(offset + got));
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    got += static_cast<std::size_t>(more);
  }
  return got;
}

/// Bytes up to the end of the last record: a file grows by more than one.
std::uint64_t written_bytes(int file, std::array<char, piece>& buffer) {
  struct stat status{};
  if (::fstat(file, &status) != 0) return 0;
  auto end = static_cast<std::uint64_t>(status.st_size);
  while (end > 0) {
    const std::uint64_t begin = (end - 1) / piece * piece;
    const std::string_view bytes(buffer.data(), read_piece(file, begin, buffer));
    const std::size_t last = bytes.substr(0, end - begin).find_last_not_of('\0');
    if (last != std::string_view::npos)
      return (begin + last) / sizeof(trace::Record) * sizeof(trace::Record) + sizeof(trace::Record);
    end = begin;
  }
  return 0;
}

}  // namespace

TraceFiles::~TraceFiles() {
  for (const File& each : files_)
    if (!each.path.empty()) ::unlink(each.path.c_str());
}

std::expected<TraceFiles::Made, std::string> TraceFiles::make(std::uint32_t rank) {
  std::string path;
  UniqueFd file = shared_.empty() ? nameless_file() : secret_file(shared_, path);
  if (!file) return std::unexpected(std::string(std::strerror(errno)));
  files_.push_back({rank, std::move(file), std::move(path)});
  return Made{files_.back().file.get(), files_.back().path};
}

void TraceFiles::collect(const std::function<bool(std::uint32_t, std::string_view)>& take) const {
  std::array<char, piece> buffer;
  for (const File& each : files_) {
    const std::uint64_t end = written_bytes(each.file.get(), buffer);
    for (std::uint64_t offset = 0; offset < end; offset += piece) {
      const std::size_t got = read_piece(each.file.get(), offset, buffer);
      const std::size_t wanted = std::min<std::uint64_t>(got, end - offset);
      if (wanted > 0 && !take(each.rank, {buffer.data(), wanted})) return;
    }
  }
}

std::string TraceFolders::add(const std::string& folder, std::uint32_t rank, std::string_view bytes) {
  const std::string path = folder + '/' + trace::name_of_file(rank);
  const auto refuse = [&](const char* what) {
    const int error = errno;
    files_[rank].reset();
    return fmt::format("rank {} is not traced: cannot {} {}: {} (ISTHMUS_TRACE)", rank, what, path,
                       std::strerror(error));
  };
  const auto [place, is_new] = files_.try_emplace(rank);
  if (is_new) place->second = trace::make_file(path);
  if (is_new && !place->second) return refuse("make");
  while (place->second && !bytes.empty()) {
    const ssize_t written = ::write(place->second.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return refuse("write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace isthmus::mpiexec
