#include "gpu/driver/cuda_context.hpp"

#include <algorithm>
#include <string>

#include "gpu/driver/cuda_error.hpp"

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

/// Also after a reset: it "does not release" the context (CUDA driver API, cuDevicePrimaryCtxReset).
PrimaryContexts::~PrimaryContexts() {
  for (const Retained& each : retained_)
    functions_.primary_release(each.device);
}

Result<Context> PrimaryContexts::of(Device device) {
  if (const Retained* known = find(device)) return known->context;
  retained_.reserve(retained_.size() + 1);
  Context context = nullptr;
  if (const Status status = functions_.primary_retain(&context, device); status != Status::success)
    return fail(functions_, status, "use GPU " + std::to_string(device));
  ContextLife life = 0;
  if (const Status status = functions_.context_id(context, &life); status != Status::success) {
    functions_.primary_release(device);
    return fail(functions_, status, "use GPU " + std::to_string(device));
  }
  retained_.push_back({.device = device, .context = context, .life = life});
  return context;
}

const PrimaryContexts::Retained* PrimaryContexts::find(Device device) const noexcept {
  const auto found = std::ranges::find(retained_, device, &Retained::device);
  return found == retained_.end() ? nullptr : &*found;
}

ContextLife PrimaryContexts::ask(const Retained& retained) const noexcept {
  ContextLife life = 0;
  return functions_.context_id(retained.context, &life) == Status::success ? life : 0;
}

Result<> PrimaryContexts::check_alive(Device device) {
  const auto found = std::ranges::find(retained_, device, &Retained::device);
  if (found == retained_.end()) return {};
  const ContextLife life = ask(*found);
  if (life == 0)
    return fail_after_reset(device,
                            "and not used it since: there is nothing left in its memory to send or receive");
  if (life != found->life) {
    found->life = life;
    ++renewals_;
  }
  return {};
}

ContextLife PrimaryContexts::life(Device device) const noexcept {
  const Retained* const known = find(device);
  return known ? known->life : 0;
}

bool PrimaryContexts::is_alive(Device device, ContextLife life) const noexcept {
  const Retained* const known = find(device);
  return known && known->life == life && ask(*known) == life;
}

}  // namespace isthmus::cuda
