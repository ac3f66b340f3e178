#include "p2p/protocol/gpu/access.hpp"

#include <utility>

#include "base/log.hpp"
#include "p2p/message/pack.hpp"

namespace isthmus {

GpuMessages* GpuAccess::make() {
  auto made = GpuMessages::make(around_, cuda_);
  if (made) {
    messages_ = std::move(*made);
    polled_.add(*messages_);
    around_.completion.set_lander(messages_.get());
  } else {
    has_failed_ = true;
    if (around_.links.settings().warn) warn("GPU memory cannot be used in MPI calls: " + made.error().text());
  }
  return messages_.get();
}

Result<> GpuAccess::pack(const Payload& payload, std::byte* to) {
  if (payload.bytes == 0) return {};
  if (GpuMessages* const messages = get()) [[unlikely]] {
    auto buffer = messages->copies().find(payload);
    if (!buffer) return std::unexpected(std::move(buffer).error());
    if (*buffer) return messages->copies().copy(**buffer, payload, Payload::of(to, payload.bytes));
  }
  pack_into(payload, to);
  return {};
}

void GpuAccess::close() noexcept {
  messages_.reset();
  around_.completion.set_lander(nullptr);
  has_failed_ = true;
}

}  // namespace isthmus
