#include "wire/device.hpp"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace isthmus::wire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto pause_between_looks = std::chrono::microseconds(100);

constexpr std::uint64_t unit_limit = 1U << 24U;  ///< of the words below

constexpr std::uint64_t piece_word(std::uint64_t offset, std::uint64_t bytes, std::uint64_t count) {
  return offset / DeviceDirectory::unit << 40U | bytes / DeviceDirectory::unit << 16U | (count & 0xffffU);
}

constexpr std::uint64_t piece_offset(std::uint64_t word) {
  return (word >> 40U) * DeviceDirectory::unit;
}

constexpr std::uint64_t piece_bytes(std::uint64_t word) {
  return (word >> 16U & (unit_limit - 1)) * DeviceDirectory::unit;
}

/// Whose members are counted.
constexpr std::uint64_t half_of(std::uint64_t tenancy) {
  return tenancy << 32U;
}

using KeyWords = std::array<std::uint64_t, 2>;
static_assert(sizeof(KeyWords) == sizeof(JobKey));

/// Whether `word` was still `from`, and is `to` now.
bool exchange(std::atomic<std::uint64_t>& word, std::uint64_t from, std::uint64_t to) noexcept {
  return word.compare_exchange_strong(from, to);
}

/// Adds to the members of that tenancy; how many there are then, nothing where the slot counts for another.
std::optional<std::uint32_t> add_members(std::atomic<std::uint64_t>& word, std::uint64_t tenancy,
                                         std::int32_t more) noexcept {
  std::uint64_t seen = word.load();
  while ((seen ^ half_of(tenancy)) >> 32U == 0) {
    const auto count = static_cast<std::uint32_t>(seen) + static_cast<std::uint32_t>(more);
    if (word.compare_exchange_weak(seen, half_of(tenancy) | count)) return count;
  }
  return std::nullopt;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (number == 0)
    if (::getrandom(&number, sizeof number, 0) != sizeof number) number = 0;
  return number;
}

/// The directory's lock, held if `held()`. Honest holders have it for less than a millisecond; from one that
/// keeps it longer than `patience` it is taken away, and `still_held` tells that one.
class DeviceLock {
 public:
  DeviceLock(std::atomic<std::uint64_t>& word, std::chrono::milliseconds patience)
      : word_(word), mine_(random_number()) {
    const auto end = Clock::now() + 4 * patience;  // others may be as patient, and die in turn
    std::uint64_t holder = 0;
    auto since = Clock::now();
    while (true) {
      std::uint64_t seen = 0;
      if (word_.compare_exchange_strong(seen, mine_, std::memory_order_acq_rel)) break;
      const auto now = Clock::now();
      if (seen != holder) {
        holder = seen;
        since = now;
      } else if (now - since > patience &&
                 word_.compare_exchange_strong(seen, mine_, std::memory_order_acq_rel)) {
        break;
      }
      if (now > end) return;
      std::this_thread::sleep_for(pause_between_looks);
    }
    held_ = true;
  }
  ~DeviceLock() {
    std::uint64_t expected = mine_;
    if (held_) word_.compare_exchange_strong(expected, 0, std::memory_order_release);
  }
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;

  [[nodiscard]] bool held() const noexcept { return held_; }
  [[nodiscard]] bool still_held() const noexcept {
    return held_ && word_.load(std::memory_order_acquire) == mine_;
  }

 private:
  std::atomic<std::uint64_t>& word_;
  const std::uint64_t mine_;
  bool held_ = false;
};

std::unexpected<Error> no_lock() {
  return fail(ErrorClass::other, "others do not let go of its directory");
}

}  // namespace

Result<DeviceDirectory> DeviceDirectory::open(std::span<std::byte> memory, Patience patience) {
  if (memory.size() < 2 * unit || reinterpret_cast<std::uintptr_t>(memory.data()) % cache_line != 0)
    return fail(ErrorClass::arg, "it has " + std::to_string(memory.size()) +
                                     " bytes, which is too little for a directory and a job");
  if (memory.size() / unit >= unit_limit) memory = memory.first((unit_limit - 1) * unit);
  DeviceDirectory directory(memory, patience);
  ISTHMUS_TRY(directory.make_or_check());
  return directory;
}

Result<> DeviceDirectory::make_or_check() {
  DeviceHeader& shared = header();
  if (shared.magic.load(std::memory_order_acquire) == 0) {
    // Before the lock, which would be written into what may be somebody else's.
    const auto* const bytes = reinterpret_cast<const unsigned char*>(memory_.data());
    if (std::any_of(bytes + sizeof shared.lock, bytes + unit, [](unsigned char b) { return b != 0; }) &&
        shared.version != device_version)
      return fail(ErrorClass::other, "it holds something else (fill its first 64 KiB with zeros)");
    const DeviceLock lock(shared.lock, patience_.lock);
    if (!lock.held()) return no_lock();
    if (shared.magic.load(std::memory_order_acquire) == 0) {
      shared.version = device_version;
      shared.jobs = device_jobs;
      shared.bytes = memory_.size();
      // Whoever comes first draws each half, also where the lock was taken away in between.
      auto* const halves = reinterpret_cast<std::uint64_t*>(shared.id.data());
      for (std::size_t i = 0; i < sizeof shared.id / sizeof(std::uint64_t); ++i) {
        std::uint64_t none = 0;
        std::atomic_ref(halves[i]).compare_exchange_strong(none, random_number());
      }
      shared.magic.store(device_magic, std::memory_order_release);
    }
  }
  if (shared.magic.load(std::memory_order_acquire) != device_magic)
    return fail(ErrorClass::other, "it holds something else (fill its first 64 KiB with zeros)");
  if (shared.version != device_version || shared.jobs != device_jobs)
    return fail(ErrorClass::other, "its directory is of another release of this library");
  if (shared.bytes != memory_.size())
    return fail(ErrorClass::other, "it has " + std::to_string(memory_.size()) +
                                       " bytes here, and another size where it was first used");
  id_ = shared.id;
  return {};
}

std::optional<DeviceDirectory::Piece> DeviceDirectory::look(std::uint32_t number) const noexcept {
  const DeviceSlot& shared = slot(number);
  Piece piece;
  piece.tenancy = shared.tenancy.load();
  if (piece.tenancy == 0) return std::nullopt;
  const std::uint64_t word = shared.piece.load();
  piece.offset = piece_offset(word);
  piece.bytes = piece_bytes(word);
  const KeyWords key{shared.key[0].load(), shared.key[1].load()};
  piece.key = std::bit_cast<JobKey>(key);
  if (!is_possible(piece.offset, piece.bytes) || shared.tenancy.load() != piece.tenancy) return std::nullopt;
  return piece;
}

bool DeviceDirectory::is_possible(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  return offset != 0 && bytes != 0 && offset <= memory_.size() && bytes <= memory_.size() - offset;
}

/// The first gap between the pieces of others that is large enough.
std::optional<std::uint64_t> DeviceDirectory::find_room(std::uint64_t bytes) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (std::uint32_t number = 0; number < device_jobs; ++number)
    if (const auto piece = look(number)) taken.emplace_back(piece->offset, piece->bytes);
  std::ranges::sort(taken);
  std::uint64_t begin = unit;
  for (const auto& [offset, size] : taken) {
    if (offset >= begin && offset - begin >= bytes) return begin;
    begin = std::max(begin, offset + size);
  }
  if (memory_.size() - begin < bytes) return std::nullopt;
  return begin;
}

Result<DeviceDirectory::Tenancy> DeviceDirectory::take(const JobKey& key, std::uint64_t bytes) {
  const auto full = [&] {
    return fail(ErrorClass::no_mem, "no " + std::to_string(bytes >> 10) + " KiB of its " +
                                        std::to_string(memory_.size() >> 10) + " KiB are free");
  };
  if (bytes == 0 || bytes > capacity()) return full();
  bytes = (bytes + unit - 1) / unit * unit;
  const DeviceLock lock(header().lock, patience_.lock);
  if (!lock.held()) return no_lock();
  const auto before = find_slot();
  if (!before) return fail(ErrorClass::no_mem, std::to_string(device_jobs) + " jobs use it already");
  const auto offset = find_room(bytes);
  if (!offset) return full();
  const Tenancy tenancy{before->slot, random_number() & ~device_claim, *offset, bytes};
  DeviceSlot& mine = slot(before->slot);
  const std::uint64_t claim = tenancy.number | device_claim;
  if (!exchange(mine.tenancy, before->tenancy, claim)) return no_lock();
  // Whoever takes the lock away after the look at it sees the piece that is claimed; who did before may not
  // have.
  if (!fill(*before, key, tenancy) || !lock.still_held() || !exchange(mine.tenancy, claim, tenancy.number)) {
    exchange(mine.tenancy, claim, 0);
    return no_lock();
  }
  return tenancy;
}

/// A slot that no job has or is about to have, by its own words: they may name a piece that cannot be. The
/// tenancy is read first: where it is still the same when it is exchanged, so were the others.
std::optional<DeviceDirectory::Before> DeviceDirectory::find_slot() const noexcept {
  for (std::uint32_t number = 0; number < device_jobs; ++number) {
    const DeviceSlot& shared = slot(number);
    const Before before{.slot = number,
                        .tenancy = shared.tenancy.load(),
                        .members = shared.members.load(),
                        .piece = shared.piece.load(),
                        .key = {shared.key[0].load(), shared.key[1].load()}};
    const bool claimed = (before.tenancy & device_claim) != 0;
    if (before.tenancy == 0 ||
        (!claimed && !is_possible(piece_offset(before.piece), piece_bytes(before.piece))))
      return before;
  }
  return std::nullopt;
}

/// Writes a claimed slot; false where somebody else has begun to.
bool DeviceDirectory::fill(const Before& before, const JobKey& key, const Tenancy& tenancy) noexcept {
  DeviceSlot& mine = slot(before.slot);
  const auto words = std::bit_cast<KeyWords>(key);
  return exchange(mine.piece, before.piece, piece_word(tenancy.offset, tenancy.bytes, before.piece + 1)) &&
         exchange(mine.members, before.members, half_of(tenancy.number) | 1U) &&
         exchange(mine.key[0], before.key[0], words[0]) && exchange(mine.key[1], before.key[1], words[1]);
}

Result<DeviceDirectory::Tenancy> DeviceDirectory::enter(const JobKey& key) {
  for (std::uint32_t number = 0; number < device_jobs; ++number) {
    const auto piece = look(number);
    if (!piece || piece->claimed() || piece->key != key) continue;
    if (add_members(slot(number).members, piece->tenancy, 1))
      return Tenancy{number, piece->tenancy, piece->offset, piece->bytes};
  }
  return fail(ErrorClass::other, "its directory does not name this job");
}

Result<bool> DeviceDirectory::reclaim() {
  struct Sign {
    std::uint64_t tenancy = 0, heartbeat = 0;
    bool operator==(const Sign&) const = default;
  };
  const auto sign_of = [&](std::uint32_t number) {
    const DeviceSlot& shared = slot(number);
    return Sign{shared.tenancy.load(), shared.heartbeat.load()};
  };
  std::array<Sign, device_jobs> before;
  bool any = false;
  for (std::uint32_t number = 0; number < device_jobs; ++number) {
    before[number] = sign_of(number);
    any = any || before[number].tenancy != 0;
  }
  if (!any) return false;
  std::this_thread::sleep_for(patience_.silence);
  const DeviceLock lock(header().lock, patience_.lock);
  if (!lock.held()) return no_lock();
  bool freed = false;
  for (std::uint32_t number = 0; number < device_jobs; ++number)
    if (before[number].tenancy != 0 && sign_of(number) == before[number])
      freed = exchange(slot(number).tenancy, before[number].tenancy, 0) || freed;
  return freed;
}

bool DeviceDirectory::beat(const Tenancy& tenancy) noexcept {
  DeviceSlot& mine = slot(tenancy.slot);
  if (mine.tenancy.load(std::memory_order_acquire) != tenancy.number) return false;
  mine.heartbeat.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void DeviceDirectory::leave(const Tenancy& tenancy) noexcept {
  DeviceSlot& mine = slot(tenancy.slot);
  if (mine.tenancy.load() != tenancy.number) return;
  if (add_members(mine.members, tenancy.number, -1) == 0U) exchange(mine.tenancy, tenancy.number, 0);
}

}  // namespace isthmus::wire
