#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "wire/device.hpp"

namespace isthmus::launch {

/// This process as a member of a job in a device's memory. A thread of its own, asleep but for a moment each
/// 100 ms, keeps the job's heart beating; its end leaves the piece. A child of `fork` does neither.
///
/// Where the machine was stopped for so long that the piece has been given to another job, whatever this one
/// would write there would destroy the other: the process ends at once, with a sentence.
class Tenant {
 public:
  /// Keeps `memory` alive, in which the directory is.
  static Result<std::shared_ptr<Tenant>> make(std::shared_ptr<const void> memory,
                                              const wire::DeviceDirectory& directory,
                                              const wire::DeviceDirectory::Tenancy& tenancy);
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;
  ~Tenant();

 private:
  Tenant(std::shared_ptr<const void> memory, const wire::DeviceDirectory& directory,
         const wire::DeviceDirectory::Tenancy& tenancy);
  void run();

  const std::shared_ptr<const void> memory_;
  wire::DeviceDirectory directory_;
  const wire::DeviceDirectory::Tenancy tenancy_;
  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;  ///< under `mutex_`
  std::thread thread_;
};

}  // namespace isthmus::launch
