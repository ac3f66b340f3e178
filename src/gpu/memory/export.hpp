#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "gpu/driver/cuda_api.hpp"
#include "gpu/memory/buffer.hpp"

namespace isthmus {

/// How an allocation is handed to another process.
enum class ExportKind : std::uint8_t {
  legacy = 1,  ///< a handle of 64 bytes, of cudaMalloc memory
  vmm = 2,     ///< a descriptor, of cuMemCreate memory
  pool = 3,    ///< a descriptor of the pool, and 64 bytes for the allocation in it
};

/// How memory of a kind is handed over; what is never counts as cudaMalloc memory.
[[nodiscard]] constexpr ExportKind export_kind_of(MemoryKind kind) noexcept {
  return kind == MemoryKind::vmm    ? ExportKind::vmm
         : kind == MemoryKind::pool ? ExportKind::pool
                                    : ExportKind::legacy;
}
[[nodiscard]] constexpr MemoryKind memory_kind_of(ExportKind kind) noexcept {
  return kind == ExportKind::vmm    ? MemoryKind::vmm
         : kind == ExportKind::pool ? MemoryKind::pool
                                    : MemoryKind::device;
}

/// What a peer needs to reach a buffer on a GPU. Plain bytes, the same in every process of a host, so that it
/// can lie in a message; what comes from a message is checked by `Mapping::open`. A descriptor, where the
/// kind has one, travels beside it.
struct Export {
  ExportKind kind = ExportKind::legacy;
  std::array<std::uint8_t, 3> reserved{};
  std::uint32_t pid = 0;         ///< of the exporter, in its namespace
  std::uint64_t start_time = 0;  ///< of the exporter: clock ticks since boot, as in /proc/PID/stat
  std::uint64_t exporter = 0;    ///< a random number that names the process, never 0
  std::uint64_t allocation = 0;  ///< there
  std::uint64_t base = 0;        ///< the allocation's address there
  std::uint64_t room = 0;        ///< the allocation's bytes
  std::uint64_t offset = 0;      ///< of the buffer in it
  std::uint64_t bytes = 0;       ///< of the buffer
  std::uint64_t pool = 0;        ///< the pool's number there, from 1
  cuda::Uuid device;
  std::array<std::uint8_t, 64> handle{};

  [[nodiscard]] bool has_descriptor() const noexcept { return kind != ExportKind::legacy; }
};
static_assert(sizeof(Export) == 152);

/// The process itself, as its exports name it.
struct ProcessIdentity {
  std::uint32_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint64_t nonce = 0;

  static Result<ProcessIdentity> here();
};

/// Exports buffers of this process. Handles are made once for each allocation: 9 us and more. One thread at a
/// time.
class Exporter {
 public:
  /// The least recently used is forgotten beyond so many.
  static constexpr std::size_t most = 1024;

  Exporter(const cuda::Functions& functions, const ProcessIdentity& self)
      : functions_(functions), self_(self) {}

  /// Fails with the reason for memory that cannot be exported.
  Result<Export> offer(const Buffer& buffer);
  /// For those who have this process's addresses: of any memory, without what others need to open it.
  Result<Export> name(const Buffer& buffer) const;
  /// Why `offer` has refused an allocation for good; empty where it has not, as far as is remembered.
  [[nodiscard]] std::string_view why_refused(std::uint64_t allocation) const {
    const auto found = refused_.find(allocation);
    return found == refused_.end() ? std::string_view() : std::string_view(found->second);
  }
  /// Why `offer` has refused memory of a kind the last time that it did, for reports.
  [[nodiscard]] const std::map<MemoryKind, std::string>& last_refusals() const noexcept {
    return last_refusals_;
  }
  /// The descriptor that goes with the exports of an allocation, for a peer that opens it. Made each time:
  /// one that is kept open would keep memory that the program frees. Fails if it has been freed since.
  Result<UniqueFd> descriptor(std::uint64_t allocation);
  /// Hands the allocations that were offered and that the program has freed since to `tell`, and forgets each
  /// for which that has returned. Peers that have them open keep their memory from being given out again,
  /// until they are told. 0.1 us an allocation.
  void take_freed(const std::function<void(std::uint64_t)>& tell);
  [[nodiscard]] const ProcessIdentity& self() const noexcept { return self_; }

 private:
  struct Entry {
    MemoryKind kind = MemoryKind::device;
    cuda::Pool pool = nullptr;
    Export value;
  };
  Result<Export> try_offer(const Buffer& buffer);
  Result<Entry> make(const Buffer& buffer);
  Result<> make_legacy(Entry& entry) const;
  Result<> make_pool(Entry& entry);
  Result<UniqueFd> make_vmm_descriptor(const Entry& entry) const;
  Result<UniqueFd> make_pool_descriptor(const Entry& entry) const;
  [[nodiscard]] bool is_there(const Entry& entry) const;

  const cuda::Functions& functions_;
  const ProcessIdentity self_;
  std::list<Entry> entries_;  ///< the last used first
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> by_allocation_;
  std::unordered_map<std::uint64_t, std::string> refused_;  ///< by allocation: why
  std::map<MemoryKind, std::string> last_refusals_;
  std::unordered_map<cuda::Pool, std::uint64_t> pools_;  ///< their numbers
};

}  // namespace isthmus
