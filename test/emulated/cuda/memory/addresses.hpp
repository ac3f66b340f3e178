#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/driver/cuda_types.hpp"
#include "memory/backing.hpp"
#include "memory/free_ranges.hpp"

namespace isthmus::emulated {

enum class Origin { device, pinned, registered, managed, mapped, pool, ipc, imported_pointer };

/// Addresses that the driver knows, and what lies there.
struct Allocation {
  Origin origin = Origin::device;
  cuda::Address base = 0;
  std::size_t bytes = 0;
  std::byte* view = nullptr;  ///< where the copy engine finds `base`
  std::shared_ptr<Backing> backing;
  std::size_t offset = 0;  ///< in the backing
  cuda::Device device = cuda::no_device;
  cuda::Context context = nullptr;
  std::uint64_t id = 0;
  std::uint64_t block = 0;  ///< of the physical memory
  cuda::HandleType handle_types = cuda::HandleType::none;
  std::vector<cuda::Device> accessible;  ///< mapped: to whom cuMemSetAccess has given it
  cuda::Physical physical = 0;           ///< mapped
  cuda::Pool pool = nullptr;             ///< pool, imported_pointer
  std::size_t slot = 0;                  ///< in the pool's table
  unsigned opens = 0;                    ///< ipc
  unsigned long long sync_memops = 0;
  struct Page {
    cuda::Location preferred, prefetched;
    bool read_mostly = false;
  };
  std::vector<Page> pages;  ///< managed, each of `page_bytes`
  static constexpr std::size_t page_bytes = 4096;

  [[nodiscard]] bool on_device() const noexcept {
    return origin != Origin::pinned && origin != Origin::registered && origin != Origin::managed;
  }
  [[nodiscard]] std::byte* view_of(cuda::Address address) const noexcept { return view + (address - base); }
};

/// The driver's addresses: one piece of the process's address space without any right, from which pieces are
/// given out, the lowest first, so that what is freed is used again soon, and a page behind each stays free;
/// and the table of what lies where, host memory that was registered included.
class AddressSpace {
 public:
  AddressSpace();

  /// 0 if there is no room. `alignment` is a power of two.
  cuda::Address reserve(std::size_t bytes, std::size_t alignment);
  void release(cuda::Address address, std::size_t bytes);
  [[nodiscard]] bool is_ours(cuda::Address address) const noexcept {
    return address >= begin_ && address < end_;
  }

  void add(std::shared_ptr<Allocation> allocation);
  std::shared_ptr<Allocation> remove(cuda::Address base);
  /// What lies at an address, null if nothing does.
  [[nodiscard]] std::shared_ptr<Allocation> find(cuda::Address address) const;
  [[nodiscard]] bool overlaps(cuda::Address address, std::size_t bytes) const;
  [[nodiscard]] const auto& all() const noexcept { return allocations_; }

 private:
  cuda::Address begin_ = 0, end_ = 0;
  FreeRanges free_;
  std::map<cuda::Address, std::shared_ptr<Allocation>> allocations_;
};

}  // namespace isthmus::emulated
