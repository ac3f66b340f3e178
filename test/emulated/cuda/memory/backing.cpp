#include "memory/backing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "settings.hpp"

namespace isthmus::emulated {
namespace {

constexpr std::size_t page = 4096;

std::string name_in_folder(std::uint64_t token) {
  const std::string folder = variable("FOLDER");
  return folder.empty() ? folder : folder + "/cuda-" + std::to_string(token);
}

/// A memfd cannot be given a name, a file without one can.
UniqueFd nameless_file(BackingKind kind) {
  if (const std::string folder = variable("FOLDER"); !folder.empty())
    return UniqueFd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  return UniqueFd(::memfd_create(kind == BackingKind::managed ? managed_name : "emulated-cuda", MFD_CLOEXEC));
}

}  // namespace

std::shared_ptr<Backing> Backing::create(BackingKind kind, unsigned device, std::size_t bytes) {
  std::shared_ptr<Backing> backing(new Backing);
  backing->file_ = nameless_file(kind);
  const std::size_t room = (bytes + page - 1) / page * page + page;
  if (!backing->file_ || ::ftruncate(backing->file_.get(), static_cast<off_t>(room)) != 0) return nullptr;
  if (!backing->map(room)) return nullptr;
  std::uint64_t token = 0;
  if (::getrandom(&token, sizeof token, 0) != sizeof token) return nullptr;
  auto* header = new (backing->header_) BackingHeader;
  header->kind = kind;
  header->device = device;
  header->bytes = bytes;
  header->token = token | 1U;
  return backing;
}

std::shared_ptr<Backing> Backing::open(UniqueFd file, BackingKind kind) {
  // Any file may be named as memory: a peer's standard output, say.
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size < static_cast<off_t>(page) ||
      status.st_size % static_cast<off_t>(page) != 0)
    return nullptr;
  std::shared_ptr<Backing> backing(new Backing);
  backing->file_ = std::move(file);
  if (!backing->map(static_cast<std::size_t>(status.st_size))) return nullptr;
  const BackingHeader& header = *backing->header_;
  if (header.mark != BackingHeader::expected_mark || header.kind != kind) return nullptr;
  return backing;
}

bool Backing::map(std::size_t room) {
  void* address = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  if (address == MAP_FAILED) return false;
  view_ = static_cast<std::byte*>(address);
  room_ = room;
  header_ = reinterpret_cast<BackingHeader*>(view_ + room - page);
  return true;
}

Backing::~Backing() {
  if (view_) ::munmap(view_, room_);
}

Ticket announce(const Backing& backing) {
  const BackingHeader& header = backing.header();
  if (const std::string name = name_in_folder(header.token); !name.empty()) {
    const std::string file = "/proc/self/fd/" + std::to_string(backing.fd());
    // It may have that name already.
    [[maybe_unused]] const int result =
        ::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
  }
  struct stat status{};
  ::fstat(backing.fd(), &status);
  return {.kind = header.kind,
          .pid = ::getpid(),
          .fd = backing.fd(),
          .device = header.device,
          .token = header.token,
          .inode = status.st_ino};
}

void withdraw(const Backing& backing) {
  if (const std::string name = name_in_folder(backing.header().token); !name.empty()) ::unlink(name.c_str());
}

std::shared_ptr<Backing> find(const Ticket& ticket) {
  const std::string named = name_in_folder(ticket.token);
  const std::string path =
      !named.empty() ? named : "/proc/" + std::to_string(ticket.pid) + "/fd/" + std::to_string(ticket.fd);
  auto backing = Backing::open(UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC)), ticket.kind);
  // The descriptor's number may name another file by now.
  return backing && backing->header().token == ticket.token ? backing : nullptr;
}

}  // namespace isthmus::emulated
