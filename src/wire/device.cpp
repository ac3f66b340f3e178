#include "wire/device.hpp"

#include <sys/random.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace isthmus::wire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto pause_between_looks = std::chrono::microseconds(100);

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
      for (std::size_t i = 0; i < sizeof shared.id; i += sizeof(std::uint64_t)) {
        const std::uint64_t number = random_number();
        std::copy_n(reinterpret_cast<const std::uint8_t*>(&number), sizeof number, shared.id.begin() + i);
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
  piece.tenancy = shared.tenancy.load(std::memory_order_acquire);
  if (piece.tenancy == 0) return std::nullopt;
  piece.heartbeat = shared.heartbeat.load(std::memory_order_relaxed);
  piece.offset = std::atomic_ref(const_cast<std::uint64_t&>(shared.offset)).load(std::memory_order_relaxed);
  piece.bytes = std::atomic_ref(const_cast<std::uint64_t&>(shared.bytes)).load(std::memory_order_relaxed);
  piece.key = shared.key;
  const bool possible = piece.offset >= unit && piece.offset % unit == 0 && piece.bytes != 0 &&
                        piece.bytes % unit == 0 && piece.offset <= memory_.size() &&
                        piece.bytes <= memory_.size() - piece.offset;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!possible || shared.tenancy.load(std::memory_order_relaxed) != piece.tenancy) return std::nullopt;
  return piece;
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
  std::uint32_t number = 0;
  while (number < device_jobs && look(number))
    ++number;
  if (number == device_jobs)
    return fail(ErrorClass::no_mem, std::to_string(device_jobs) + " jobs use it already");
  const auto offset = find_room(bytes);
  if (!offset) return full();
  DeviceSlot& free_slot = slot(number);
  free_slot.tenancy.store(0, std::memory_order_relaxed);  // it may name a piece that cannot be
  std::atomic_thread_fence(std::memory_order_release);
  free_slot.heartbeat.store(0, std::memory_order_relaxed);
  free_slot.members.store(1, std::memory_order_relaxed);
  free_slot.key = key;
  free_slot.offset = *offset;
  free_slot.bytes = bytes;
  if (!lock.still_held()) return no_lock();
  const std::uint64_t tenancy = random_number();
  free_slot.tenancy.store(tenancy, std::memory_order_release);
  return Tenancy{number, tenancy, *offset, bytes};
}

Result<DeviceDirectory::Tenancy> DeviceDirectory::enter(const JobKey& key) {
  for (std::uint32_t number = 0; number < device_jobs; ++number) {
    const auto piece = look(number);
    if (!piece || piece->key != key) continue;
    slot(number).members.fetch_add(1, std::memory_order_acq_rel);
    return Tenancy{number, piece->tenancy, piece->offset, piece->bytes};
  }
  return fail(ErrorClass::other, "its directory does not name this job");
}

Result<bool> DeviceDirectory::reclaim() {
  std::array<std::optional<Piece>, device_jobs> before;
  bool any = false;
  for (std::uint32_t number = 0; number < device_jobs; ++number) {
    before[number] = look(number);
    any = any || before[number];
  }
  if (!any) return false;
  std::this_thread::sleep_for(patience_.silence);
  const DeviceLock lock(header().lock, patience_.lock);
  if (!lock.held()) return no_lock();
  bool freed = false;
  for (std::uint32_t number = 0; number < device_jobs; ++number) {
    const auto now = look(number);
    if (!now || !before[number] || now->tenancy != before[number]->tenancy ||
        now->heartbeat != before[number]->heartbeat)
      continue;
    std::uint64_t dead = now->tenancy;
    freed = slot(number).tenancy.compare_exchange_strong(dead, 0, std::memory_order_acq_rel) || freed;
  }
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
  std::uint64_t expected = tenancy.number;
  if (mine.tenancy.load(std::memory_order_acquire) != expected) return;
  if (mine.members.fetch_sub(1, std::memory_order_acq_rel) == 1)
    mine.tenancy.compare_exchange_strong(expected, 0, std::memory_order_release);
}

}  // namespace isthmus::wire
