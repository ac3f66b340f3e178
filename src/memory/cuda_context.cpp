#include "memory/cuda_context.hpp"

#include <algorithm>
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
  for (const Retained& each : retained_)
    functions_.primary_release(each.device);
}

Result<Context> PrimaryContexts::of(Device device) {
  for (const Retained& each : retained_)
    if (each.device == device) return each.context;
  Context context = nullptr;
  if (const Status status = functions_.primary_retain(&context, device); status != Status::success)
    return fail(functions_, status, "use GPU " + std::to_string(device));
  unsigned long long id = 0;
  if (const Status status = functions_.context_id(context, &id); status != Status::success) {
    functions_.primary_release(device);
    return fail(functions_, status, "use GPU " + std::to_string(device));
  }
  retained_.push_back({.device = device, .context = context, .id = id});
  return context;
}

bool PrimaryContexts::is_alive(Device device) const noexcept {
  const auto found = std::ranges::find(retained_, device, &Retained::device);
  if (found == retained_.end()) return true;
  unsigned long long id = 0;
  return functions_.context_id(found->context, &id) == Status::success && id == found->id;
}

Result<> PrimaryContexts::check_alive(Device device) const {
  if (is_alive(device)) return {};
  return isthmus::fail(ErrorClass::other,
                       "the program has reset GPU " + std::to_string(device) +
                           ", and with it what the library had there: no more messages in its memory");
}

bool PrimaryContexts::reaches(const Buffer& buffer) {
  if (!buffer.context || buffer.is_host_readable()) return true;
  const auto primary = of(buffer.device);
  return primary && *primary == buffer.context;
}

}  // namespace isthmus::cuda
