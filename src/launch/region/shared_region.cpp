#include "launch/region/shared_region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "base/system/memory_file.hpp"
#include "launch/visit/descriptor_box.hpp"

namespace isthmus::launch {
namespace {

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

std::string reason(int error) {
  return std::generic_category().message(error);
}

std::unexpected<Error> cannot_make(const char* step, std::uint64_t bytes, const char* remedy = "") {
  const int error = errno;
  return fail(ErrorClass::no_mem, "cannot make the job's shared region of " + std::to_string(bytes >> 20) +
                                      " MiB of address space: " + step + ": " + reason(error) + remedy);
}

}  // namespace

SharedMapping::~SharedMapping() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

Result<SharedMapping> SharedMapping::map(int fd, std::uint64_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (address == MAP_FAILED) return cannot_make("mmap", bytes, " (is `ulimit -v` too low?)");
  return SharedMapping({static_cast<std::byte*>(address), bytes});
}

Result<SharedMapping> SharedMapping::attach(int segment) {
  shmid_ds status{};
  if (::shmctl(segment, IPC_STAT, &status) != 0) return fail(ErrorClass::other, "shmctl: " + reason(errno));
  void* address = ::shmat(segment, nullptr, 0);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): what shmat returns
  if (address == reinterpret_cast<void*>(-1)) return fail(ErrorClass::other, "shmat: " + reason(errno));
  return SharedMapping({static_cast<std::byte*>(address), status.shm_segsz});  // munmap detaches
}

Result<SegmentRegion> make_segment_region(const wire::RegionShape& shape,
                                          const wire::RegionView::Format& format) {
  auto layout = wire::RegionLayout::make(shape);
  if (!layout) return std::unexpected(std::move(layout).error());
  const int segment = ::shmget(IPC_PRIVATE, layout->bytes, IPC_CREAT | SHM_NORESERVE | 0600);
  if (segment < 0) return cannot_make("shmget", layout->bytes);
  auto mapping = SharedMapping::attach(segment);
  ::shmctl(segment, IPC_RMID, nullptr);
  if (!mapping) return std::unexpected(std::move(mapping).error());
  const auto view = wire::RegionView::format(mapping->memory(), *layout, format);
  return SegmentRegion{segment, {{}, std::make_shared<const SharedMapping>(std::move(*mapping)), view}};
}

Result<SharedRegion> open_segment_region(int segment) {
  auto mapping = SharedMapping::attach(segment);
  if (!mapping) return std::unexpected(std::move(mapping).error());
  const auto view = wire::RegionView::open(mapping->memory());
  if (!view) return fail(view.error().error_class(), view.error().text());
  return SharedRegion{{}, std::make_shared<const SharedMapping>(std::move(*mapping)), *view};
}

Result<SharedRegion> make_region(const wire::RegionShape& shape, const wire::RegionView::Format& format) {
  auto layout = wire::RegionLayout::make(shape);
  if (!layout) return std::unexpected(std::move(layout).error());
  UniqueFd fd = make_memory_file();
  if (!fd) return cannot_make("memfd_create", layout->bytes);
  if (!set_size(fd, layout->bytes))
    return cannot_make("ftruncate", layout->bytes, " (is `ulimit -f` too low?)");
  if (::fcntl(fd.get(), F_ADD_SEALS, size_seals | F_SEAL_SEAL) != 0)
    return cannot_make("F_ADD_SEALS", layout->bytes);
  auto mapping = SharedMapping::map(fd.get(), layout->bytes);
  if (!mapping) return std::unexpected(std::move(mapping).error());
  const auto view = wire::RegionView::format(mapping->memory(), *layout, format);
  SharedRegion region{std::move(fd), std::make_shared<const SharedMapping>(std::move(*mapping)), view};
  // Nearly all jobs do without, and who needs one says what it lacks.
  if (auto box = DescriptorBox::make()) region.box = std::move(*box);
  return region;
}

Result<SharedRegion> open_region(int fd) {
  const std::string name = "descriptor " + std::to_string(fd);
  struct stat status{};
  if (::fstat(fd, &status) != 0)
    return fail(
        ErrorClass::intern,
        name + " is not open: something between mpiexec and this program has closed inherited descriptors");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & size_seals) != size_seals)
    return fail(ErrorClass::intern, name + " is not a region of Isthmus (a memfd of sealed size)");
  auto mapping = SharedMapping::map(fd, static_cast<std::uint64_t>(status.st_size));
  if (!mapping) return std::unexpected(std::move(mapping).error());
  const auto view = wire::RegionView::open(mapping->memory());
  if (!view) return fail(view.error().error_class(), view.error().text());
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return SharedRegion{UniqueFd(fd), std::make_shared<const SharedMapping>(std::move(*mapping)), *view};
}

wire::RingGeometry ring_geometry(const Settings& settings, std::uint32_t ranks) {
  wire::RingGeometry geometry = wire::RingGeometry::for_ranks(ranks);
  // Tuned rings were measured with two ranks: what many of them would take was not.
  const auto holds = [&](std::string_view variable) {
    return settings.origin(variable) != Origin::tuned ||
           geometry.data_bytes == wire::RingGeometry::for_ranks(2).data_bytes;
  };
  const bool cells = settings.ring_cells && holds("ISTHMUS_RING_CELLS");
  const bool bytes = settings.ring_bytes && holds("ISTHMUS_RING_BYTES");
  if (cells) geometry.cells = settings.ring_cells;
  if (bytes) geometry.data_bytes = settings.ring_bytes;
  return geometry;
}

Result<wire::JobKey> make_job_key() {
  wire::JobKey key{};
  if (::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()))
    return fail(ErrorClass::intern, "getrandom: " + reason(errno));
  return key;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

}  // namespace isthmus::launch
