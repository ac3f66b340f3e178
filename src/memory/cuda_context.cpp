#include "memory/cuda_context.hpp"

#include <string>

#include "memory/cuda_error.hpp"

namespace isthmus::cuda {

RelaxedCapture::RelaxedCapture(const Functions& functions) noexcept
    : functions_(functions), relaxed_(functions.exchange_capture_mode(&mode_) == Status::success) {}

RelaxedCapture::~RelaxedCapture() {
  if (relaxed_) functions_.exchange_capture_mode(&mode_);
}

ContextScope::ContextScope(const Functions& functions, Context context) noexcept
    : functions_(functions),
      relaxed_(functions),
      pushed_(context && functions.context_push(context) == Status::success) {}

ContextScope::~ContextScope() {
  Context popped = nullptr;
  if (pushed_) functions_.context_pop(&popped);
}

PrimaryContexts::~PrimaryContexts() {
  for (const auto& [device, context] : retained_)
    functions_.primary_release(device);
}

Result<Context> PrimaryContexts::of(Device device) {
  for (const auto& [known, context] : retained_)
    if (known == device) return context;
  Context context = nullptr;
  if (const Status status = functions_.primary_retain(&context, device); status != Status::success)
    return fail(functions_, status, "use GPU " + std::to_string(device));
  retained_.emplace_back(device, context);
  return context;
}

bool PrimaryContexts::reaches(const Buffer& buffer) {
  if (!buffer.context || buffer.is_host_readable()) return true;
  const auto primary = of(buffer.device);
  return primary && *primary == buffer.context;
}

}  // namespace isthmus::cuda
