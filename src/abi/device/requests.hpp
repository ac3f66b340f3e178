#pragma once

#include <cstdint>

#include "abi/carry/carrier.hpp"
#include "carry/order.hpp"
#include "device/port.hpp"

namespace isthmus::abi {

/// What kernels of a port write into pinned memory for its carrier. The port must outlive it.
class KernelRequests final : public CarriedPort {
 public:
  explicit KernelRequests(device::Port& port)
      : CarriedPort({port.functions(), port.device(), port.context()}), port_(port) {}

  [[nodiscard]] Result<> check() const override { return port_.check(); }
  void look_for_losses() noexcept override { port_.look_for_losses(); }
  void fail_for_good(Error why) noexcept override { port_.fail_for_good(std::move(why)); }
  Result<bool> take_requests(Carrier& carrier) override;
  Result<> end(Carrier& carrier, std::uint64_t number) override;
  [[nodiscard]] bool is_idle() const override;
  Result<> set_signal(const carry::Order& order, cuda::Stream stream) override;
  [[nodiscard]] carry::Limits limits() const override;

 private:
  [[nodiscard]] isthmus_device_request& slot() const noexcept {
    return port_.requests()[next_ % device::Port::slots];
  }
  [[nodiscard]] bool is_asked() const noexcept;

  device::Port& port_;
  std::uint64_t next_ = 1;  ///< request
  carry::InOrder begun_;
};

}  // namespace isthmus::abi
