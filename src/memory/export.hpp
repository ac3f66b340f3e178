#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "memory/buffer.hpp"
#include "memory/cuda_api.hpp"

namespace isthmus {

/// How an allocation is handed to another process.
enum class ExportKind : std::uint8_t {
  legacy = 1,  ///< a handle of 64 bytes, of cudaMalloc memory
  vmm = 2,     ///< a descriptor, of cuMemCreate memory
  pool = 3,    ///< a descriptor of the pool, and 64 bytes for the allocation in it
};

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

/// Exports buffers of this process, each allocation once: getting a handle costs 9 us and more. One thread at
/// a time.
class Exporter {
 public:
  /// An export with its descriptor, -1 if it has none, which stays the exporter's and is valid until its next
  /// call.
  struct Offer {
    Export value;
    int descriptor = -1;
  };
  /// The least recently used is forgotten beyond so many; each may hold a descriptor.
  static constexpr std::size_t most = 128;

  Exporter(const cuda::Functions& functions, const ProcessIdentity& self)
      : functions_(functions), self_(self) {}

  /// Fails with the reason, and the remedy where there is one, for memory that cannot be exported.
  Result<Offer> offer(const Buffer& buffer);
  [[nodiscard]] const ProcessIdentity& self() const noexcept { return self_; }

 private:
  struct Entry {
    Export value;
    UniqueFd descriptor;
  };
  Result<Entry> make(const Buffer& buffer);
  Result<> make_legacy(const Buffer& buffer, Entry& entry) const;
  Result<> make_vmm(const Buffer& buffer, Entry& entry) const;
  Result<> make_pool(const Buffer& buffer, Entry& entry);
  std::uint64_t number_of(cuda::Pool pool);

  const cuda::Functions& functions_;
  const ProcessIdentity self_;
  std::list<Entry> entries_;  ///< the last used first
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> by_allocation_;
  std::unordered_map<cuda::Pool, std::uint64_t> pools_;
};

}  // namespace isthmus
