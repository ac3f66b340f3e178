#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace isthmus::mpiexec {

/// What ranks write of themselves (`src/trace`) where they may not see the folder for it: in containers and
/// on other hosts. mpiexec makes a file for each and takes back what lies in it when the rank has ended,
/// however that came.
class TraceFiles {
 public:
  /// `shared`: a folder that the ranks see under the same name, for those that inherit no descriptor. Empty:
  /// they inherit one, and the files have no names, so that nothing is left of them whatever ends mpiexec.
  explicit TraceFiles(std::string shared) : shared_(std::move(shared)) {}
  ~TraceFiles();
  TraceFiles(const TraceFiles&) = delete;
  TraceFiles& operator=(const TraceFiles&) = delete;

  /// A new file, for `rank`. A sentence on failure.
  struct Made {
    int file;          ///< stays this object's
    std::string path;  ///< empty: it has none
  };
  std::expected<Made, std::string> make(std::uint32_t rank);

  /// Gives what the ranks have written to `take`, a piece after the other, until that returns false.
  void collect(const std::function<bool(std::uint32_t rank, std::string_view bytes)>& take) const;

 private:
  struct File {
    std::uint32_t rank;
    UniqueFd file;
    std::string path;  ///< empty: it has none
  };

  std::string shared_;
  std::vector<File> files_;
};

/// Where the files of ranks come to lie for who reads them.
class TraceFolders {
 public:
  /// Appends `bytes` to the file of `rank` in `folder`. A sentence where that cannot be, once for a rank;
  /// else empty.
  std::string add(const std::string& folder, std::uint32_t rank, std::string_view bytes);

 private:
  std::map<std::uint32_t, UniqueFd> files_;  ///< by rank; empty: it could not be made or written
};

}  // namespace isthmus::mpiexec
