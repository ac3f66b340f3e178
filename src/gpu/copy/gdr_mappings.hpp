#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_set>

#include "gpu/copy/gdr_driver.hpp"

namespace isthmus {

/// Device memory of this process that the processor loads and stores itself, where GDRCopy is: looked for
/// with the first message. Keeps the pages of the last buffers mapped, and closes what the program has freed.
/// One thread at a time.
class GdrMappings {
 public:
  static constexpr std::size_t most_mappings = 64;
  /// Allocations that are remembered as refused; beyond that they are tried again.
  static constexpr std::size_t most_refused = 1024;
  struct Counts {
    std::uint64_t loads = 0, stores = 0;
  };

  GdrMappings() = default;
  GdrMappings(const GdrMappings&) = delete;
  GdrMappings& operator=(const GdrMappings&) = delete;
  ~GdrMappings() = default;

  /// All of the buffer to memory of the host; false, with nothing done, where it cannot be mapped.
  bool load(void* to, const Buffer& from);
  /// The other way.
  bool store(const Buffer& to, const void* from);
  /// Closes mappings of memory that the program has freed.
  void close_freed();

  /// Whether GDRCopy is there; `trouble` says why not, or is empty before anybody has looked.
  [[nodiscard]] bool is_there() const noexcept { return driver_ != nullptr; }
  /// Whether somebody has looked, and it is not.
  [[nodiscard]] bool is_missing() const noexcept { return has_looked_ && !driver_; }
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  [[nodiscard]] std::size_t open_mappings() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t allocation;
    std::unique_ptr<GdrMapping> mapping;
  };
  const GdrMapping* find(const Buffer& buffer);

  bool has_looked_ = false;
  std::string trouble_;
  std::unique_ptr<GdrDriver> driver_;
  std::list<Entry> entries_;                   ///< the last used first
  std::unordered_set<std::uint64_t> refused_;  ///< allocations that GDRCopy will not map
  Counts counts_;
};

}  // namespace isthmus
