#include "chare/checkpoint/checkpoint_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <isthmus/chare/archive.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace isthmus::chare {
namespace {

constexpr std::array<char, 16> head_mark{"isthmus chares1"};
constexpr std::array<char, 16> part_mark{"isthmus chare p"};
constexpr std::size_t write_at_once = std::size_t{1} << 20;
/// Of a head: as many chares as fit into memory need no more.
constexpr std::uint64_t largest_head = std::uint64_t{1} << 30;

struct HeadFront {
  std::array<char, 16> mark;
  std::uint64_t bytes;
  std::uint64_t checksum;
};

/// FNV-1a over words of 8 bytes, each of them mixed: 64 bits that a changed bit changes.
std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t sum) {
  sum ^= bytes.size();
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t taken = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), taken);
    sum = (sum ^ word) * 0x9e37'79b9'7f4a'7c15;
    sum ^= sum >> 32;
    bytes = bytes.subspan(taken);
  }
  return sum;
}
std::uint64_t checksum_of(const SavedChare& chare, std::span<const std::byte> data) {
  const auto front = std::as_bytes(std::span(&chare, 1)).subspan(sizeof chare.checksum);
  return checksum_of(data, checksum_of(front, 0xcbf2'9ce4'8422'2325));
}

auto refuse(const std::string& name, std::string_view what) {
  return isthmus::fail(ErrorClass::file, fmt::format("{}: {}", name, what));
}
auto refuse_errno(const std::string& name, std::string_view doing, int error) {
  return refuse(name, fmt::format("{}: {}", doing, ::strerror(error)));
}

Result<> write_all(int file, std::span<const std::byte> bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return refuse_errno(name, "it cannot be written", written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

/// Not mapped: a file that becomes shorter meanwhile would end the process. `expected` 0: any size.
Result<std::vector<std::byte>> read_file(const std::string& name, std::uint64_t expected) {
  const UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return refuse_errno(name, "it cannot be opened", errno);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return refuse_errno(name, "it cannot be looked at", errno);
  if (!S_ISREG(status.st_mode)) return refuse(name, "it is no file of a checkpoint: no regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (expected != 0 && size != expected)
    return refuse(
        name, fmt::format("it has {} bytes, and not the {} that its checkpoint has written", size, expected));
  if (expected == 0 && size > largest_head)
    return refuse(name, fmt::format("it is no checkpoint: {} bytes are too many", size));
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::read(file.get(), bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse_errno(name, "it cannot be read", errno);
    if (got == 0) return refuse(name, "it becomes shorter while it is being read");
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

Result<> sync_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened || ::fsync(opened.get()) != 0) return refuse_errno(folder, "it cannot be synchronised", errno);
  return {};
}

}  // namespace

std::string part_name(const std::string& path, std::uint64_t generation, std::uint32_t process) {
  return fmt::format("{}.{:016x}.{}", path, generation, process);
}

Result<PartWriter> PartWriter::open(const std::string& name) {
  UniqueFd file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return refuse_errno(name, "it cannot be made", errno);
  PartWriter made(name, std::move(file));
  const auto mark = std::as_bytes(std::span(part_mark));
  made.waiting_.assign(mark.begin(), mark.end());
  return made;
}

Result<> PartWriter::add(SavedChare chare, std::uint64_t bytes,
                         const std::function<void(std::byte*)>& write) {
  const std::size_t at = waiting_.size();
  waiting_.resize(at + sizeof chare + bytes);
  std::byte* const data = waiting_.data() + at + sizeof chare;
  write(data);
  chare.bytes = bytes;
  chare.checksum = checksum_of(chare, {data, bytes});
  std::memcpy(waiting_.data() + at, &chare, sizeof chare);
  ++written_.chares;
  return waiting_.size() < write_at_once ? Result<>() : flush();
}

Result<> PartWriter::flush() {
  ISTHMUS_TRY(write_all(file_.get(), waiting_, name_));
  written_.bytes += waiting_.size();
  waiting_.clear();
  return {};
}

Result<SavedPart> PartWriter::finish() {
  ISTHMUS_TRY(flush());
  if (::fsync(file_.get()) != 0) return refuse_errno(name_, "it cannot be brought to disk", errno);
  if (::close(file_.leak()) != 0) return refuse_errno(name_, "it cannot be closed", errno);
  return written_;
}

Result<> read_part(const std::string& name, const SavedPart& expected,
                   const std::function<Result<>(const SavedChare&, std::span<const std::byte>)>& take) {
  const Result<std::vector<std::byte>> file = read_file(name, expected.bytes);
  if (!file) return std::unexpected(Error(file.error().error_class(), file.error().text()));
  std::span<const std::byte> rest = *file;
  if (rest.size() < part_mark.size() || std::memcmp(rest.data(), part_mark.data(), part_mark.size()) != 0)
    return refuse(name, "it is no part of a checkpoint of chares");
  rest = rest.subspan(part_mark.size());
  std::uint64_t count = 0;
  for (; !rest.empty(); ++count) {
    SavedChare chare;
    if (rest.size() < sizeof chare) return refuse(name, fmt::format("chare {} of it is cut off", count));
    std::memcpy(&chare, rest.data(), sizeof chare);
    rest = rest.subspan(sizeof chare);
    if (chare.bytes > rest.size()) return refuse(name, fmt::format("chare {} of it is cut off", count));
    const auto data = rest.first(chare.bytes);
    if (checksum_of(chare, data) != chare.checksum)
      return refuse(name, fmt::format("chare {} of it is damaged: its checksum is another", count));
    ISTHMUS_TRY(take(chare, data));
    rest = rest.subspan(chare.bytes);
  }
  if (count != expected.chares)
    return refuse(name, fmt::format("it has {} chares, and not the {} that its checkpoint has written", count,
                                    expected.chares));
  return {};
}

namespace {

/// Beside `path`, on disk, as all that it names.
Result<> write_head(const std::string& path, const std::string& beside, const CheckpointHead& head) {
  Sizer sizer;
  sizer(head);
  std::vector<std::byte> bytes(sizeof(HeadFront) + sizer.size());
  const auto body = std::span(bytes).subspan(sizeof(HeadFront));
  Writer(body.data())(head);
  const HeadFront front{.mark = head_mark, .bytes = body.size(), .checksum = checksum_of(body, 0)};
  std::memcpy(bytes.data(), &front, sizeof front);
  UniqueFd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return refuse_errno(beside, "it cannot be made", errno);
  ISTHMUS_TRY(write_all(file.get(), bytes, beside));
  if (::fsync(file.get()) != 0) return refuse_errno(beside, "it cannot be brought to disk", errno);
  // The parts' names before the head's.
  return sync_folder(path);
}

}  // namespace

Result<> commit_checkpoint(const std::string& path, const CheckpointHead& head) {
  const Result<CheckpointHead> older = read_head(path);
  const std::string beside = fmt::format("{}.{:016x}", path, head.generation);
  Result<> written = write_head(path, beside, head);
  if (written && ::rename(beside.c_str(), path.c_str()) != 0)
    written = refuse_errno(path, "it cannot be replaced", errno);
  if (!written) {
    ::unlink(beside.c_str());
    remove_parts(path, head.generation, static_cast<std::uint32_t>(head.parts.size()));
    return written;
  }
  if (const Result<> synced = sync_folder(path); !synced)
    return refuse(path, fmt::format("it is the new checkpoint, but a crash may bring the older one back ({})",
                                    synced.error().text()));
  if (older) remove_parts(path, older->generation, static_cast<std::uint32_t>(older->parts.size()));
  return {};
}

Result<CheckpointHead> read_head(const std::string& path) {
  Result<std::vector<std::byte>> file = read_file(path, 0);
  if (!file) return std::unexpected(std::move(file).error());
  HeadFront front;
  const std::span<const std::byte> bytes = *file;
  if (bytes.size() < sizeof front) return refuse(path, "it is no checkpoint of chares: it is too short");
  std::memcpy(&front, bytes.data(), sizeof front);
  if (front.mark != head_mark)
    return refuse(path, "it is no checkpoint of chares, or of another version of them");
  const auto body = bytes.subspan(sizeof front);
  if (front.bytes != body.size())
    return refuse(path, fmt::format("it has {} bytes, and not the {} that it has been written with",
                                    body.size(), front.bytes));
  if (front.checksum != checksum_of(body, 0)) return refuse(path, "it is damaged: its checksum is another");
  CheckpointHead head;
  try {
    Reader reader(body.data(), body.size());
    reader(head);
    reader.finish();
  } catch (const ArchiveError& error) {
    return refuse(path, fmt::format("it is damaged: {}", error.what()));
  }
  if (head.parts.empty() || head.roots < head.parts.size())
    return refuse(path,
                  fmt::format("it is damaged: {} parts of {} processes", head.parts.size(), head.roots));
  return head;
}

void remove_parts(const std::string& path, std::uint64_t generation, std::uint32_t processes) {
  for (std::uint32_t process = 0; process < processes; ++process)
    ::unlink(part_name(path, generation, process).c_str());
}

}  // namespace isthmus::chare
