#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "channel/network/port.hpp"
#include "channel/network/ucx/doors.hpp"

namespace isthmus::network {

/// Owns a UCX context and its only worker.
class UcxWorker {
 public:
  static Result<UcxWorker> open(const Settings& settings, Identity self);

  /// The transports and devices that UCX would choose from with `settings`.
  static Result<std::vector<Inventory::Transport>> transports(const Settings& settings);

  /// As `Port::why_not_gpu`.
  [[nodiscard]] std::string_view why_not_gpu() const { return why_not_gpu_; }

  [[nodiscard]] ucp_worker_h get() const { return worker_.get(); }
  /// Those of its TCP connections. Shut at first.
  [[nodiscard]] Doors& doors() { return doors_; }
  /// A copy of the worker's address.
  [[nodiscard]] Result<std::vector<std::byte>> address() const;

 private:
  struct Cleanup {
    void operator()(ucp_context_h context) const { ucp_cleanup(context); }
    void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
  };
  using Context = std::unique_ptr<ucp_context, Cleanup>;
  using Worker = std::unique_ptr<ucp_worker, Cleanup>;

  static Result<Context> open_context(const Settings& settings, PeerId ranks);
  static Error not_there(const Settings& settings, PeerId ranks);

  UcxWorker(Context context, Worker worker, Doors doors, std::string_view why_not_gpu)
      : context_(std::move(context)),
        worker_(std::move(worker)),
        doors_(std::move(doors)),
        why_not_gpu_(why_not_gpu) {}

  Context context_;
  Worker worker_;
  Doors doors_;
  std::string_view why_not_gpu_;
};

}  // namespace isthmus::network
