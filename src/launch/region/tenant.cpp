#include "launch/region/tenant.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "base/log.hpp"
#include "base/system/blocked_signals.hpp"

namespace isthmus::launch {
namespace {

constexpr auto time_between_beats = std::chrono::milliseconds(100);

}  // namespace

Tenant::Tenant(std::shared_ptr<const void> memory, const wire::DeviceDirectory& directory,
               const wire::DeviceDirectory::Tenancy& tenancy)
    : memory_(std::move(memory)), directory_(directory), tenancy_(tenancy), process_(::getpid()) {}

Result<std::shared_ptr<Tenant>> Tenant::make(std::shared_ptr<const void> memory,
                                             const wire::DeviceDirectory& directory,
                                             const wire::DeviceDirectory::Tenancy& tenancy) {
  std::shared_ptr<Tenant> tenant(new Tenant(std::move(memory), directory, tenancy));
  const BlockedSignals blocked;
  try {
    tenant->thread_ = std::thread([t = tenant.get()] { t->run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("cannot start the thread of its heartbeat: ") + error.what());
  }
  return tenant;
}

Tenant::~Tenant() {
  if (::getpid() != process_) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_one();
  if (thread_.joinable()) thread_.join();
  directory_.leave(tenancy_);
}

void Tenant::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (!directory_.beat(tenancy_)) {
      warn(
          "this process was stopped for so long that the memory of its job in the ivshmem device has been "
          "given to another job; it ends now");
      std::_Exit(EXIT_FAILURE);
    }
    ending_.wait_for(lock, time_between_beats);
  }
}

}  // namespace isthmus::launch
