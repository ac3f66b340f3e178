#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace isthmus::launch {

/// A sign of life that needs no launcher and no pid: a lock on one byte of the region's file, which the
/// kernel lets go of when the process ends, however it ends. Others see it across all namespaces, because
/// they have the same file.
///
/// It is a lock of an open file description (fcntl(2), F_OFD_SETLK) that this process alone has, and that
/// only a mapping keeps open: so the lock lasts as long as the address space. A child of `fork` does not
/// inherit the mapping, and a program that closes all its descriptors does not let go of the lock.
class LifeLine {
 public:
  /// Takes the lock for `slot` in the file that `region` is open on.
  static Result<std::shared_ptr<const LifeLine>> take(int region, std::uint32_t slot);
  LifeLine(const LifeLine&) = delete;
  LifeLine& operator=(const LifeLine&) = delete;
  ~LifeLine();

  /// Whether nobody holds the lock of `other`, a slot that is not this process's. False where that cannot be
  /// said: the program may have closed the descriptor. 0.3 us.
  [[nodiscard]] bool is_free(std::uint32_t other) const noexcept;

 private:
  LifeLine(UniqueFd shared, void* page, dev_t device, ino_t file) noexcept
      : shared_(std::move(shared)), page_(page), device_(device), file_(file) {}

  UniqueFd shared_;  ///< of the description that all have, which holds no lock
  void* page_;       ///< keeps the own description
  dev_t device_;
  ino_t file_;
};

}  // namespace isthmus::launch
