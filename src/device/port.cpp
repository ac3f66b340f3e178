#include "device/port.hpp"

#include <time.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/system/blocked_signals.hpp"
#include "device/refusal.hpp"
#include "gpu/driver/cuda_error.hpp"

namespace isthmus::device {
namespace {

using cuda::Status;

constexpr timespec between_looks{0, 20'000'000};
constexpr std::size_t line = sizeof(isthmus_device_line);
constexpr std::size_t state_room = 1024;
static_assert(sizeof(isthmus_device_state) <= state_room && sizeof(isthmus_device_control) == 384);
static_assert(sizeof(isthmus_device_request) == 64 && sizeof(isthmus_device_peer) == 32);

}  // namespace

Port::~Port() {
  stop();
  if (is_abandoned_) {
    [[maybe_unused]] const PinnedPages* const stays = pinned_.release();
    return;
  }
  // A reset of the device takes all of it along.
  if (!contexts_ || !contexts_->is_alive(device_, life_)) return;
  const cuda::ContextScope scope(functions_, context_);
  if (stream_) functions_.stream_destroy(stream_);
  if (shared_ != 0) functions_.free(shared_);
  if (own_ != 0) functions_.free(own_);
}

std::size_t Port::shared_bytes() const noexcept {
  return (extent_.signals + 2 * extent_.ranks * ISTHMUS_DEVICE_TEAM_WORDS) * line + extent_.room;
}

std::byte* Port::room(std::size_t of) const noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the GPU
  return reinterpret_cast<std::byte*>(peers_[of].signals) + room_offset();
}

const std::uint64_t* Port::ended_word() const noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the GPU
  return reinterpret_cast<const std::uint64_t*>(pinned_address_ + offsetof(isthmus_device_control, ended));
}

Result<> Port::make(cuda::PrimaryContexts& contexts, const Extent& extent) {
  extent_ = extent;
  contexts_ = &contexts;
  life_ = contexts.life(device_);
  const std::size_t pinned_bytes = sizeof(isthmus_device_control) + slots * sizeof(isthmus_device_request);
  auto pages = PinnedPages::make(contexts, device_, pinned_bytes);
  if (!pages) return std::unexpected(std::move(pages).error());
  pinned_ = std::move(*pages);
  std::ranges::fill(pinned_->span(), std::byte{0});
  const cuda::ContextScope scope(functions_, context_);
  // Where it has no address of its own there, the host's is the GPU's.
  if (functions_.host_device_pointer(&pinned_address_, pinned_->span().data(), 0) != Status::success)
    pinned_address_ = reinterpret_cast<cuda::Address>(pinned_->span().data());
  if (const Status status = functions_.stream_create(&stream_, cuda::stream_non_blocking);
      status != Status::success)
    return cuda::fail(functions_, status, "make a stream");
  const std::size_t own_bytes = state_room + extent.ranks * sizeof(isthmus_device_peer) +
                                extent.shares * extent.ranks * sizeof(isthmus_device_span);
  for (const auto& [address, bytes] : {std::pair{&shared_, shared_bytes()}, std::pair{&own_, own_bytes}}) {
    Status status = functions_.allocate(address, bytes);
    if (status == Status::success) status = functions_.fill_async(*address, 0, bytes, stream_);
    if (status == Status::success) status = functions_.stream_synchronize(stream_);
    if (status != Status::success) return cuda::fail(functions_, status, "give memory for signals");
  }
  return {};
}

Result<> Port::start() {
  const BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("no thread to look after a port: ") + error.what());
  }
  return {};
}

void Port::stop() noexcept {
  if (!thread_.joinable()) return;
  ending_.store(true);
  thread_.join();
}

void Port::abandon() noexcept {
  cancel();
  if (before_end) before_end();
  stop();
  is_abandoned_ = true;
}

Result<> Port::write(cuda::Address to, const void* from, std::size_t bytes) const {
  const cuda::ContextScope scope(functions_, context_);
  Status status = functions_.copy_to_device_async(to, from, bytes, stream_);
  if (status == Status::success) status = functions_.stream_synchronize(stream_);
  if (status == Status::success) return {};
  return cuda::fail(functions_, status, "write what kernels find the others' memory by");
}

Result<> Port::set_peer(std::size_t of, const std::byte* at, bool has_atomics) {
  peers_.resize(extent_.ranks);
  isthmus_device_peer& there = peers_[of];
  if (at) {
    there.signals = reinterpret_cast<std::uint64_t>(at);
    there.packets = there.signals + extent_.signals * line;
    there.flags = has_atomics ? ISTHMUS_DEVICE_ATOMICS : 0;
  }
  return write(own_ + state_room + of * sizeof there, &there, sizeof there);
}

Result<> Port::set_detour(std::size_t of) {
  isthmus_device_peer& there = peers_[of];
  if ((there.flags & ISTHMUS_DEVICE_DETOUR) != 0) return {};
  there.flags |= ISTHMUS_DEVICE_DETOUR;
  return write(own_ + state_room + of * sizeof there, &there, sizeof there);
}

Result<> Port::set_spans(std::uint32_t share, const std::vector<isthmus_device_span>& spans) {
  const std::size_t row = extent_.ranks * sizeof(isthmus_device_span);
  return write(own_ + state_room + extent_.ranks * sizeof(isthmus_device_peer) + share * row, spans.data(),
               row);
}

isthmus_device_view Port::view(std::uint32_t shares) const noexcept {
  // NOLINTBEGIN(performance-no-int-to-ptr): addresses of the GPU
  isthmus_device_view made{};
  made.peers = reinterpret_cast<const isthmus_device_peer*>(own_ + state_room);
  made.spans = reinterpret_cast<const isthmus_device_span*>(own_ + state_room +
                                                            extent_.ranks * sizeof(isthmus_device_peer));
  made.state = reinterpret_cast<isthmus_device_state*>(own_);
  made.control = reinterpret_cast<isthmus_device_control*>(pinned_address_);
  if (has_proxy_)
    made.requests =
        reinterpret_cast<isthmus_device_request*>(pinned_address_ + sizeof(isthmus_device_control));
  // NOLINTEND(performance-no-int-to-ptr)
  made.slots = slots;
  made.signals = extent_.signals;
  made.shares = shares;
  made.rank = rank;
  made.ranks = static_cast<int>(extent_.ranks);
  made.is_team = is_team_ ? 1 : 0;
  return made;
}

isthmus_device_control& Port::control() const noexcept {
  return *reinterpret_cast<isthmus_device_control*>(pinned_->span().data());
}

isthmus_device_request* Port::requests() const noexcept {
  return reinterpret_cast<isthmus_device_request*>(pinned_->span().data() + sizeof(isthmus_device_control));
}

Result<> Port::check() const {
  if (has_failed_.load(std::memory_order_acquire)) return fail(failure_->error_class(), failure_->text());
  if (const int lost = lost_.load(std::memory_order_acquire); lost >= 0)
    return fail(ErrorClass::proc_aborted,
                "rank " + std::to_string(lost) +
                    " of the port has died: kernels that waited have been let go, what they waited for has "
                    "not come");
  if (cancelled_.load(std::memory_order_acquire)) return fail(ErrorClass::other, "the port was cancelled");
  return {};
}

Result<> Port::take_refusal() {
  isthmus_device_control& noted = control();
  const std::atomic_ref why(noted.why);
  if (why.load(std::memory_order_acquire) == 0) return {};
  Error error = refusal(noted);
  why.store(0);
  constexpr std::uint64_t none = 0;
  ISTHMUS_TRY(write(own_ + offsetof(isthmus_device_state, refused), &none, sizeof none));
  return std::unexpected(std::move(error));
}

void Port::end_waits() const noexcept {
  std::atomic_ref(control().ended).store(1, std::memory_order_release);
}

void Port::cancel() noexcept {
  cancelled_.store(true, std::memory_order_release);
  end_waits();
}

void Port::fail_for_good(Error why) noexcept {
  if (failing_.exchange(1) != 0) return;
  failure_.emplace(std::move(why));
  has_failed_.store(true, std::memory_order_release);
  end_waits();
}

void Port::watch() noexcept {
  while (!ending_.load(std::memory_order_acquire)) {
    if (lost_.load(std::memory_order_relaxed) < 0 && failing_.load(std::memory_order_relaxed) == 0)
      look_for_losses();
    ::nanosleep(&between_looks, nullptr);
  }
}

void Port::look_for_losses() noexcept {
  const std::scoped_lock lock(engine_.lock());
  engine_.look_after_peers();
  if (why_broken) {
    // The program may wait for its stream, outside MPI: then nobody else hears that others have given up.
    engine_.progress_in_passing();
    if (std::optional<Error> why = why_broken()) return fail_for_good(std::move(*why));
  }
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (static_cast<int>(i) != rank && engine_.has_lost(ids[i])) {
      lost_.store(static_cast<int>(i), std::memory_order_release);
      end_waits();
      return;
    }
}

}  // namespace isthmus::device
