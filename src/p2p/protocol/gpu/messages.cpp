#include "p2p/protocol/gpu/messages.hpp"

#include <new>
#include <utility>

#include "launch/visit/descriptor_box.hpp"
#include "p2p/gpu_copy/couriers.hpp"
#include "p2p/gpu_copy/shapes.hpp"
#include "p2p/link/links.hpp"

namespace isthmus {
namespace {

/// How many looks for what is under way pass before one at the clock.
constexpr std::uint32_t polls_per_clock = 256;
/// How often the clock is looked at, and the program's allocations: 0.1 us each.
constexpr std::chrono::milliseconds freed_interval{5};

/// Who has set by hand which way such messages go wants them to go it. Where ranks share cores, or are in
/// several virtual machines, or have turns, what a message takes is what the scheduler does meanwhile.
bool measures_plans(const Links& links) {
  const Settings& settings = links.settings();
  const auto is_set = [&](const char* variable) { return settings.origin(variable) == Origin::environment; };
  return settings.plans == PlansSetting::live && !links.peers_sleep() && !links.peers_nap() &&
         settings.gpu_path == GpuPathSetting::automatic && !links.job().in_process && !links.job().turns &&
         !is_set("ISTHMUS_GPU_PUSH_FROM") && !is_set("ISTHMUS_GPU_DIRECT_LIMIT");
}

std::unique_ptr<GpuPart> part_of(const Buffer& buffer, const Payload& payload) {
  auto part = std::make_unique<GpuPart>();
  part->buffer = buffer;
  part->payload = payload;
  return part;
}

}  // namespace

Result<std::unique_ptr<GpuMessages>> GpuMessages::make(const Surroundings& around, CudaDriver& driver) {
  const cuda::Functions* functions = driver.find();
  if (!functions) return isthmus::fail(ErrorClass::other, "the program does not use CUDA");
  auto gpus = GpuList::read(*functions);
  if (!gpus) return std::unexpected(std::move(gpus).error());
  auto self = ProcessIdentity::here();
  if (!self) return std::unexpected(std::move(self).error());
  return std::unique_ptr<GpuMessages>(new GpuMessages(around, driver, *functions, std::move(*gpus), *self));
}

GpuMessages::GpuMessages(const Surroundings& around, CudaDriver& driver, const cuda::Functions& functions,
                         GpuList gpus, const ProcessIdentity& self)
    : links_(around.links),
      completion_(around.completion),
      sends_(around.sends),
      offers_(*around.offers),
      network_(around.network),
      gpus_(std::move(gpus)),
      copies_(driver, functions, links_.settings().warn),
      exports_(links_, around.access, copies_, gpus_, functions, self),
      windows_(links_, copies_, exports_, gpus_),
      couriers_(std::make_unique<GpuCouriers>(copies_.contexts(), copies_.kernels(),
                                              links_.settings().gpu_courier)),
      plans_({.links = links_,
              .copies = copies_,
              .exports = exports_,
              .windows = windows_,
              .couriers = *couriers_,
              .gpus = gpus_,
              .network = network_}),
      lives_(measures_plans(links_), around.clock,
             SharedGpuLessons(links_.job().region.header().gpu_lessons)),
      transfers_(links_, completion_, copies_, lives_) {
  lives_.take(links_.settings().taught_gpu);
}

GpuMessages::~GpuMessages() {
  parked_.clear();  // nobody asks for it any more, and what it waits for may never come
  try {
    while (wakes_nobody())
      poll();
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    // `GpuTransfers` waits for its copies; whose requests these are, nobody asks any more.
  }
  exports_.release_dependents();
}

Result<> GpuMessages::prepare(cuda::Device device) {
  ISTHMUS_TRY(copies_.prepare(device));
  if (couriers_) couriers_->prepare(device);
  return {};
}

// --- sending

std::variant<Request*, MemoryKind> GpuMessages::try_send(const Target& target, const Payload& payload,
                                                         SendMode mode, Start start) {
  auto buffer = copies_.look(payload);
  if (buffer && !buffer->is_on_gpu()) [[likely]]
    return buffer->kind;
  if (buffer) return start_send(target, payload, mode, start, *buffer);
  Request* send = completion_.make_send(target, payload, mode);
  transfers_.fail(*send, buffer.error());
  return send;
}

bool GpuMessages::try_prepare(Request& receive) {
  auto buffer = copies_.look(receive.payload);
  if (!buffer) {
    transfers_.fail(receive, buffer.error());
    return false;
  }
  if (buffer->is_on_gpu())
    prepare(receive, *buffer);
  else
    receive.memory = buffer->kind;
  return true;
}

Request* GpuMessages::start_send(const Target& target, const Payload& payload, SendMode mode, Start start,
                                 const Buffer& buffer) {
  if (const auto sent = send_by_processor(target, payload, mode, start, buffer)) return *sent;
  publish_gpu(buffer.device);
  Peer& peer = links_.peer(target.peer);
  const bool is_eager = payload.bytes <= links_.settings().gpu_eager_limit && mode == SendMode::standard;
  if (target.peer == links_.rank() || is_eager) return send_by_host(target, payload, mode, buffer);
  auto part = part_of(buffer, payload);
  if (!peer.is_local()) {
    if (part->is_one_copy())
      if (Request* send = network_->try_send_gpu(peer, target, part, mode)) return send;
    return send_by_host(target, payload, mode, buffer);
  }
  if ((payload.type || !buffer.is_whole()) && !offer_in_place(peer, *part)) {
    if (const Result<> packed = pack(*part); !packed) {
      links_.note_gpu_reason(peer, packed.error(), packed.error().error_class() == ErrorClass::no_mem);
      return send_by_host(target, payload, mode, buffer);
    }
  }
  if (exports_.of(peer).has_bounced(part->buffer.allocation)) lend_slot(peer, *part);
  // One message at a time is latency-bound, also where the program starts it and its receive together.
  const Offered offered = offer(peer, target, payload, mode, std::move(part), ErrorClass::success);
  links_.trace_send(peer, offered.is_alone ? Start::blocking : start);
  return offered.send;
}

GpuMessages::Offered GpuMessages::offer(Peer& peer, const Target& target, const Payload& payload,
                                        SendMode mode, std::unique_ptr<GpuPart> part, ErrorClass error) {
  GpuExports& known = exports_.of(peer);
  Request* send = completion_.make_send(target, payload, mode);
  send->status.error = static_cast<int>(error);
  send->peer = &peer;
  send->gpu = std::move(part);
  const bool is_alone = known.begin_send();
  try {
    sends_.start_offer(peer, *send);
  } catch (...) {
    known.end_send();
    completion_.drop(send);
    throw;
  }
  return {send, is_alone};
}

Result<> GpuMessages::pack(GpuPart& part) {
  if (!part.payload.type)
    return isthmus::fail(ErrorClass::other, "a message that goes on beyond its allocation is not offered");
  auto packed = copies_.layouts().pack(copies_.engine_on(part.buffer.device), part.payload);
  if (!packed) return std::unexpected(std::move(packed).error());
  const Payload payload = Payload::of(packed->data(), part.payload.bytes);
  auto buffer = copies_.find(payload);
  if (!buffer) return std::unexpected(std::move(buffer).error());
  if (!*buffer) return isthmus::fail(ErrorClass::intern, "memory of a GPU that is none");
  part.buffer = **buffer;
  part.payload = payload;
  part.packed = std::move(*packed);
  return {};
}

bool GpuMessages::offer_in_place(const Peer& peer, GpuPart& part) {
  const Buffer& buffer = part.buffer;
  // Kernels reach memory of another GPU by a mapping, which there is none of within a process.
  if (!part.payload.type || !buffer.is_own || buffer.kind == MemoryKind::managed ||
      links_.shares_process(peer))
    return false;
  const auto shaped = shaped_payload(part.payload);
  if (!shaped || !reads_well(shaped->shape, part.payload.bytes)) return false;
  const auto span = wire::span_of(shaped->shape, part.payload.bytes);
  if (!span) return false;
  Buffer whole = buffer;
  whole.data = shaped->first + span->begin;
  whole.bytes = static_cast<std::size_t>(span->end - span->begin);
  Buffer packed = buffer;
  packed.data = shaped->first;
  // An export names bytes without gaps: a send may take some twice, and have more than there are.
  if (whole.data < whole.base || !whole.is_whole() || !packed.is_whole()) return false;
  if (!copies_.layouts().can_move(copies_.engine_on(buffer.device), part.payload)) return false;
  part.buffer = packed;
  part.shape = shaped->shape;
  if (shaped->shape.level_count == 0) part.payload = Payload::of(shaped->first, part.payload.bytes);
  return true;
}

Result<> GpuMessages::pack_late(Request& send) {
  GpuPart& part = *send.gpu;
  if (!part.payload.type || pack(part)) return {};
  // Where the GPU has no room for it, the host has.
  auto staging = std::make_unique_for_overwrite<std::byte[]>(part.payload.bytes);
  const Payload packed = Payload::of(staging.get(), part.payload.bytes);
  ISTHMUS_TRY(copies_.copy(part.buffer, part.payload, packed));
  send.staging = std::move(staging);
  send.payload = packed;
  send.gpu.reset();
  exports_.of(*send.peer).end_send();
  return {};
}

Request* GpuMessages::send_by_host(const Target& target, const Payload& payload, SendMode mode,
                                   const Buffer& buffer) {
  auto staging = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
  const Payload packed = Payload::of(staging.get(), payload.bytes);
  auto copy = copies_.start(buffer, payload, packed, payload.bytes);
  const Result<> copied = copy ? copy->wait() : std::unexpected(std::move(copy).error());
  if (!copied) {
    Peer& peer = links_.peer(target.peer);
    if (target.peer == links_.rank() || !peer.is_local()) {
      Request* send = completion_.make_send(target, payload, mode);
      transfers_.fail(*send, copied.error());
      return send;
    }
    // Its receiver hears of that in the place of the message.
    transfers_.complain(copied.error());
    return offer(peer, target, payload, mode, part_of(buffer, payload), copied.error().error_class()).send;
  }
  Request* send = sends_.start_cpu_send(target, packed, mode, Start::nonblocking);
  if (send) send->staging = std::move(staging);
  return send;
}

// --- receiving

void GpuMessages::prepare(Request& receive, const Buffer& buffer) {
  publish_gpu(buffer.device);
  receive.gpu = part_of(buffer, receive.payload);
  receive.payload = Payload::of(static_cast<std::byte*>(nullptr), receive.payload.bytes);
}

// --- copies under way

bool GpuMessages::land_or_finish(Request& request) noexcept {
  GpuPart& part = *request.gpu;
  if (request.kind == Request::Kind::send && request.peer && request.peer->is_local())
    exports_.of(*request.peer).end_send();
  if (request.kind == Request::Kind::send && request.peer && request.transfer == Request::Transfer::none &&
      request.status.error == 0 && !request.cancelled)
    request.peer->traffic.add_sent(Protocol::gpu_pull, part.payload.bytes);
  const bool in_stand_in = request.kind == Request::Kind::receive && part.stand_in && !part.landed &&
                           !request.cancelled && request.matched && request.status.bytes > 0;
  if (!in_stand_in) return true;
  part.landed = true;
  try {
    const Payload arrived = Payload::of(request.payload.data, request.status.bytes);
    if (land_by_processor(part, arrived)) return true;
    const Result<> landing = transfers_.land(request);
    if (landing) {
      part.landed = false;
      return false;
    }
    transfers_.complain(landing.error());
    request.status.error = static_cast<int>(landing.error().error_class());
  } catch (const std::bad_alloc&) {
    request.status.error = static_cast<int>(ErrorClass::no_mem);
  }
  return true;
}

bool GpuMessages::wakes_nobody() const noexcept {
  const launch::DescriptorBox* const box = links_.job().box.get();
  return !transfers_.is_idle() || !parked_.empty() || (box && box->owes());
}

unsigned GpuMessages::poll() {
  unsigned happened = transfers_.poll();
  if (exports_.awaits() || !parked_.empty()) [[unlikely]]
    happened += poll_parked();
  if (launch::DescriptorBox* const box = links_.job().box.get(); box && box->owes()) [[unlikely]]
    box->give_back();
  if (++polls_ % polls_per_clock == 0) [[unlikely]]
    look_for_freed();
  return happened;
}

void GpuMessages::look_for_freed() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_for_freed_ < freed_interval) return;
  looked_for_freed_ = now;
  gdr_.close_freed();
  exports_.tell_freed();
}

void GpuMessages::note_way(Peer& peer, const Buffer& from, bool bounces) {
  if (bounces) return exports_.of(peer).bounced(from.allocation);
  if (const std::string_view why = exports_.exporter().why_refused(from.allocation); !why.empty())
    links_.note_gpu_reason(peer, Error(ErrorClass::other, std::string(why)), true);
}

void GpuMessages::note(PeerId peer, const Error& why) {
  links_.note_gpu_reason(links_.peer(peer), why, true);
}

}  // namespace isthmus
