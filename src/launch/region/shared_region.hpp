#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "base/unique_fd.hpp"
#include "wire/region.hpp"

namespace isthmus::launch {

/// Owns a shared mapping of a whole file, readable and writable.
class SharedMapping {
 public:
  SharedMapping() = default;
  SharedMapping(SharedMapping&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~SharedMapping();

  /// Maps the first `bytes` of `fd`. Reserves address space only: pages come into being when touched.
  static Result<SharedMapping> map(int fd, std::uint64_t bytes);
  /// Maps all of a System V segment.
  static Result<SharedMapping> attach(int segment);

  [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_; }

 private:
  explicit SharedMapping(std::span<std::byte> memory) : memory_(memory) {}
  std::span<std::byte> memory_;
};

/// A job's region: the memfd, its mapping and the view of it, and the box that goes with it.
struct SharedRegion {
  UniqueFd fd;  ///< close-on-exec; empty for a System V segment and in a device
  std::shared_ptr<const SharedMapping> mapping;  ///< in a device, of all of it
  wire::RegionView view;
  std::string device = {};  ///< name of the ivshmem device that it lies in, empty for none
  UniqueFd box = {};        ///< close-on-exec; a `DescriptorBox`, empty for none
};

/// Makes and formats a region, with a box, in a memfd whose size is sealed, so that no peer can turn
/// another's access into SIGBUS by truncating it. Nothing of it has a name in any file system: it goes with
/// its last process.
Result<SharedRegion> make_region(const wire::RegionShape& shape, const wire::RegionView::Format& format);

/// Takes over a region that another process made, and `fd` with it, which becomes close-on-exec. Refuses what
/// is not a memfd of sealed size with a valid header, and leaves such a descriptor alone.
Result<SharedRegion> open_region(int fd);

/// A region in a System V segment, for processes that have an IPC namespace in common and nothing else, and
/// the segment's id. It is marked for removal at once: it goes with its last process, and Linux lets others
/// of the same user attach until then.
struct SegmentRegion {
  int segment;
  SharedRegion region;
};
Result<SegmentRegion> make_segment_region(const wire::RegionShape& shape,
                                          const wire::RegionView::Format& format);
/// Refuses what is no region of Isthmus.
Result<SharedRegion> open_segment_region(int segment);

/// The geometry for `ranks`, with what the user has set in place of the defaults.
wire::RingGeometry ring_geometry(const Settings& settings, std::uint32_t ranks);

/// 128 bits from the kernel.
Result<wire::JobKey> make_job_key();

/// This host's name, "localhost" where it has none.
std::string host_name();

}  // namespace isthmus::launch
