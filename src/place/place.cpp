#include "place/place.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/unique_fd.hpp"

namespace isthmus {
namespace {

constexpr std::string_view mark = "isth";
constexpr std::uint8_t version = 1;
constexpr std::size_t longest_text = 65536;

constexpr std::array namespace_files{"/proc/self/ns/ipc", "/proc/self/ns/mnt",  "/proc/self/ns/net",
                                     "/proc/self/ns/pid", "/proc/self/ns/user", "/proc/self/ns/uts"};

constexpr int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::array<std::uint8_t, 16> boot_id() {
  std::array<std::uint8_t, 16> id{};
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  if (!file || ::read(file.get(), text.data(), text.size()) <= 0) return id;
  std::size_t digits = 0;
  for (const char c : text) {
    const int digit = hexadecimal(c);
    if (digit < 0 || digits >= 2 * id.size()) continue;
    id[digits / 2] = static_cast<std::uint8_t>(id[digits / 2] << 4 | digit);
    ++digits;
  }
  return id;
}

class Writer {
 public:
  void byte(std::uint8_t value) { out_ += static_cast<char>(value); }
  /// Seven bits a byte, the lowest first.
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      byte(static_cast<std::uint8_t>(value | 0x80U));
    byte(static_cast<std::uint8_t>(value));
  }
  void text(std::string_view value) {
    value = value.substr(0, longest_text);
    number(value.size());
    out_ += value;
  }
  template <std::size_t N>
  void bytes(const std::array<std::uint8_t, N>& value) {
    for (const std::uint8_t b : value)
      byte(b);
  }
  void raw(std::string_view value) { out_ += value; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// Reads zeros past the end, and remembers that.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  std::uint8_t byte() {
    if (left_.empty()) {
      good_ = false;
      return 0;
    }
    const auto value = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t next = byte();
      value |= std::uint64_t{next & 0x7fU} << shift;
      if ((next & 0x80U) == 0) return value;
    }
    good_ = false;
    return 0;
  }
  std::uint32_t number32() {
    const std::uint64_t value = number();
    if (value > 0xffff'ffff) good_ = false;
    return static_cast<std::uint32_t>(value);
  }
  /// -1 and up.
  std::int32_t index() {
    const std::uint64_t value = number();
    if (value > 0x7fff'ffff) good_ = false;
    return static_cast<std::int32_t>(value & 0x7fff'ffff) - 1;
  }
  std::string text() {
    const std::uint64_t size = number();
    if (size > longest_text || size > left_.size()) {
      good_ = false;
      return {};
    }
    std::string value(left_.substr(0, size));
    left_.remove_prefix(size);
    return value;
  }
  template <std::size_t N>
  void bytes(std::array<std::uint8_t, N>& value) {
    for (std::uint8_t& b : value)
      b = byte();
  }
  [[nodiscard]] bool good() const noexcept { return good_; }
  [[nodiscard]] bool at_end() const noexcept { return left_.empty(); }

 private:
  std::string_view left_;
  bool good_ = true;
};

}  // namespace

std::uint64_t namespace_here(Namespace kind) noexcept {
  struct stat status{};
  return ::stat(namespace_files[static_cast<std::size_t>(kind)], &status) == 0 ? status.st_ino : 0;
}

Result<Place> Place::here() {
  Place place;
  place.boot = boot_id();
  for (std::size_t i = 0; i < namespace_files.size(); ++i)
    place.namespaces[i] = namespace_here(static_cast<Namespace>(i));
  struct stat shm{};
  if (::stat("/dev/shm", &shm) == 0) place.shm = shm.st_dev;
  place.pid = static_cast<std::uint32_t>(::getpid());
  place.uid = ::getuid();
  auto cpus = CpuSet::affinity();
  if (!cpus) return std::unexpected(std::move(cpus).error());
  place.cpus = std::move(*cpus);
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) place.host = name.data();
  struct Random {
    std::uint64_t nonce, socket;
    Secret key;
  } random{};
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    return fail(ErrorClass::other, "no random numbers from the kernel");
  place.nonce = random.nonce | 1U;  // never what empty memory holds
  place.socket = random.socket;
  place.key = random.key;
  return place;
}

std::string Place::encode() const {
  Writer out;
  out.raw(mark);
  out.byte(version);
  out.bytes(boot);
  for (const std::uint64_t inode : namespaces)
    out.number(inode);
  out.number(pid);
  out.number(uid);
  out.text(cpus.to_string());
  out.text(host);
  out.number(nonce);
  out.number(socket);
  out.bytes(key);
  out.bytes(region);
  out.number(shm);
  out.byte(has_folder ? 1 : 0);
  for (const std::int32_t index : {package, numa, core})
    out.number(static_cast<std::uint64_t>(std::max(index, -1) + std::int64_t{1}));
  out.text(device);
  return out.take();
}

Result<Place> Place::decode(std::string_view bytes) {
  if (!bytes.starts_with(mark)) return fail(ErrorClass::intern, "it is not a place as Isthmus publishes it");
  Reader in(bytes.substr(mark.size()));
  if (const std::uint8_t theirs = in.byte(); theirs != version)
    return fail(ErrorClass::intern, "it is of format " + std::to_string(theirs) + ", this library has " +
                                        std::to_string(version) + ": the processes run different releases");
  Place place;
  in.bytes(place.boot);
  for (std::uint64_t& inode : place.namespaces)
    inode = in.number();
  place.pid = in.number32();
  place.uid = in.number32();
  auto cpus = CpuSet::parse(in.text());
  place.host = in.text();
  place.nonce = in.number();
  place.socket = in.number();
  in.bytes(place.key);
  in.bytes(place.region);
  place.shm = in.number();
  place.has_folder = in.byte() != 0;
  for (std::int32_t* index : {&place.package, &place.numa, &place.core})
    *index = in.index();
  place.device = in.text();
  if (!in.good() || !in.at_end()) return fail(ErrorClass::intern, "it is cut off or too long");
  if (!cpus) return std::unexpected(std::move(cpus).error());
  if (place.nonce == 0) return fail(ErrorClass::intern, "its nonce is 0");
  place.cpus = std::move(*cpus);
  return place;
}

}  // namespace isthmus
