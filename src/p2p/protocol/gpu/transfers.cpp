#include "p2p/protocol/gpu/transfers.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "gpu/driver/cuda_error.hpp"
#include "kernels/courier.hpp"
#include "p2p/link/links.hpp"

namespace isthmus {

void GpuTransfers::reserve(std::size_t more) {
  const std::size_t wanted = running_.size() + more;
  if (wanted > running_.capacity()) running_.reserve(std::max(wanted, 2 * running_.size()));
}

void GpuTransfers::add(Request& request, Running running) noexcept {
  request.transfer = Request::Transfer::copy;
  running_.push_back(std::move(running));
}

std::size_t GpuTransfers::count(Purpose purpose) const noexcept {
  const auto is_it = [purpose](const Held& held) { return held.running.purpose == purpose; };
  return static_cast<std::size_t>(std::ranges::count(running_, purpose, &Running::purpose) +
                                  std::ranges::count_if(held_, is_it));
}

Result<bool> GpuTransfers::is_over(Running& running) {
  if (!running.errand) return running.copy.is_done();
  CourierCopy& errand = *running.errand;
  if (!copies_.contexts().is_alive(errand.device, errand.life))
    return cuda::fail_after_reset(errand.device, CopyEngine::during_copy);
  auto fate = errand.courier->look(errand.number);
  if (!fate) return std::unexpected(std::move(fate).error());
  if (*fate != Courier::Fate::returned) return *fate == Courier::Fate::delivered;
  auto copy = copies_.engine_on(errand.device).start(errand.to, errand.from, errand.bytes);
  if (!copy) return std::unexpected(std::move(copy).error());
  running.copy = std::move(*copy);
  running.errand.reset();
  return false;
}

/// Finds copies that have ended. Where memory runs out, none is lost: it is asked again.
void GpuTransfers::collect_over() {
  const std::size_t most = over_.size() + running_.size();
  if (most > over_.capacity()) over_.reserve(2 * most);
  busy_streams_.clear();
  if (running_.size() > busy_streams_.capacity()) busy_streams_.reserve(running_.capacity());
  std::size_t kept = 0;
  std::size_t i = 0;
  const auto close_ranks = [&] {
    for (; kept != i && i < running_.size(); ++kept, ++i)
      running_[kept] = std::move(running_[i]);
    if (kept != i) running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(kept), running_.end());
  };
  try {
    for (; i < running_.size(); ++i) {
      Running& each = running_[i];
      // Where the first copy of a stream is not done, none behind it is: one question for all of them.
      const void* const stream = each.errand ? nullptr : each.copy.stream();
      const bool is_behind = stream && std::ranges::find(busy_streams_, stream) != busy_streams_.end();
      Result<bool> done = is_behind ? Result<bool>(false) : is_over(each);
      if (!done || *done) {
        over_.emplace_back(std::move(each), std::move(done));
        continue;
      }
      if (stream && !is_behind) busy_streams_.push_back(stream);
      if (kept != i) running_[kept] = std::move(each);
      ++kept;
    }
  } catch (...) {
    close_ranks();
    throw;
  }
  close_ranks();
}

/// Ends requests whose copies have, the oldest first. Where memory runs out, the rest stays.
unsigned GpuTransfers::end_over() {
  const auto begin = over_.begin();
  auto next = begin;
  const auto forget = [&] {
    const auto happened = static_cast<unsigned>(next - begin);
    over_.erase(begin, next);
    return happened;
  };
  try {
    for (; next != over_.end(); ++next)
      ended(next->first, next->second);
  } catch (...) {
    forget();
    throw;
  }
  return forget();
}

unsigned GpuTransfers::poll() {
  if (!running_.empty()) collect_over();
  const unsigned happened = over_.empty() ? 0 : end_over();
  if (!landings_.empty()) start_landings();
  start_held_if_idle();
  return happened;
}

/// Throws before anything has happened, or not at all.
void GpuTransfers::ended(const Running& running, const Result<bool>& result) {
  Request* request = completion_.find(running.request);
  if (!request) return;
  if (running.purpose == Purpose::pull) {
    if (result)
      lives_.ended(request->gpu_mark, request->limit);
    else
      lives_.given_up(request->gpu_mark);
    links_.send_control(*request->peer, wire::CellKind::share_done, &running.peers, sizeof running.peers);
  }
  if (running.purpose == Purpose::push) {
    const wire::GpuEnd end{.receiver = running.peers,
                           .outcome = result ? wire::GpuOutcome::landed : wire::GpuOutcome::failed,
                           .reserved = 0};
    links_.send_control(*request->peer, wire::CellKind::gpu_end, &end, sizeof end);
  }
  if (request->gpu) request->gpu->landed = true;
  if (!result) return fail(*request, result.error());
  completion_.finish(*request);
}

void GpuTransfers::complain(const Error& error) noexcept {
  if (!std::exchange(complained_, true) && links_.settings().warn) warn(error.text());
}

void GpuTransfers::fail(Request& request, const Error& error) noexcept {
  complain(error);
  request.status.error = static_cast<int>(error.error_class());
  completion_.finish(request);
}

}  // namespace isthmus
