#include "p2p/gpu.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

/// A descriptor of another process (Linux 5.6), which may be asked for by whoever may read its memory.
Result<UniqueFd> fetch_descriptor(pid_t pid, int descriptor) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  UniqueFd fetched;
  if (process) fetched = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
  if (!fetched)
    return isthmus::fail(ErrorClass::other, std::string("the descriptor of its GPU memory cannot be had: ") +
                                                std::strerror(errno));
  return fetched;
}

}  // namespace

Result<std::unique_ptr<GpuMessages>> GpuMessages::make(Engine& engine, CudaDriver& driver) {
  const cuda::Functions* functions = driver.find();
  if (!functions) return isthmus::fail(ErrorClass::other, "the program does not use CUDA");
  auto gpus = GpuList::read(*functions);
  if (!gpus) return std::unexpected(std::move(gpus).error());
  auto self = ProcessIdentity::here();
  if (!self) return std::unexpected(std::move(self).error());
  return std::unique_ptr<GpuMessages>(new GpuMessages(engine, driver, *functions, std::move(*gpus), *self));
}

GpuMessages::GpuMessages(Engine& engine, CudaDriver& driver, const cuda::Functions& functions, GpuList gpus,
                         const ProcessIdentity& self)
    : engine_(engine),
      gpus_(std::move(gpus)),
      self_(self),
      contexts_(functions),
      classifier_(driver),
      exporter_(functions, self_),
      mappings_(contexts_, gpus_, self_, {}),
      layouts_(contexts_, classifier_, engine.settings_.warn) {}

GpuMessages::~GpuMessages() {
  while (!running_.empty())
    poll();
  for (GpuDependent* dependent : dependents_)
    dependent->release();
}

Result<std::optional<Buffer>> GpuMessages::find(const Payload& payload) {
  if (payload.bytes == 0) return std::nullopt;
  const std::int64_t begin = payload.type ? payload.type->true_lb() : 0;
  const auto address = reinterpret_cast<std::uintptr_t>(payload.data) + static_cast<std::uintptr_t>(begin);
  auto buffer =
      classifier_.classify(reinterpret_cast<const void*>(address),  // NOLINT(performance-no-int-to-ptr)
                           payload.bytes);
  if (!buffer) return std::unexpected(std::move(buffer).error());
  if (buffer->is_host_readable()) return std::nullopt;
  return *buffer;
}

Result<> GpuMessages::copy(const Payload& from, const Payload& to) {
  auto copied = try_copy(from, to);
  if (!copied) return std::unexpected(std::move(copied).error());
  if (!*copied) return isthmus::fail(ErrorClass::intern, "a copy between buffers of the host");
  return {};
}

Result<bool> GpuMessages::try_copy(const Payload& from, const Payload& to) {
  auto near = find(from);
  if (near && !*near) near = find(to);
  if (!near) return std::unexpected(std::move(near).error());
  if (!*near) return false;
  auto copy = start_copy(**near, from, to, std::min(from.bytes, to.bytes));
  if (!copy) return std::unexpected(std::move(copy).error());
  ISTHMUS_TRY(copy->wait());
  return true;
}

Result<bool> GpuMessages::try_reduce(const Op& op, const Datatype& type, const void* in, void* inout,
                                     std::int64_t count) {
  if (count <= 0 || !GpuKernels::can_reduce(op, type)) return false;
  auto left = find(Payload::of(in, count, type));
  if (left && *left) {
    auto right = find(Payload::of(inout, count, type));
    if (!right) return std::unexpected(std::move(right).error());
    if (!*right || (*right)->device != (*left)->device) return false;
    return layouts_.reduce(engine_on((*left)->device), op, type, in, inout, count);
  }
  if (!left) return std::unexpected(std::move(left).error());
  return false;
}

CopyEngine& GpuMessages::engine_on(cuda::Device device) {
  return engines_.try_emplace(device, contexts_, device).first->second;
}

Result<PendingCopy> GpuMessages::start_copy(const Buffer& near, const Payload& from, const Payload& to,
                                            std::uint64_t bytes) {
  CopyEngine& engine = engine_on(near.device);
  if (!from.type && !to.type) return engine.start(to.data, from.data, bytes);
  return layouts_.start(engine, from, to, bytes);
}

// --- sending

std::optional<Request*> GpuMessages::try_send(const Target& target, const Payload& payload, SendMode mode) {
  auto buffer = find(payload);
  if (buffer && !*buffer) [[likely]]
    return std::nullopt;
  if (buffer) return start_send(target, payload, mode, **buffer);
  Request* send = engine_.make_send(target, payload, mode);
  fail(*send, buffer.error());
  return send;
}

bool GpuMessages::try_prepare(Request& receive) {
  auto buffer = find(receive.payload);
  if (!buffer) {
    fail(receive, buffer.error());
    return false;
  }
  if (*buffer) prepare(receive, **buffer);
  return true;
}

Request* GpuMessages::start_send(const Target& target, const Payload& payload, SendMode mode,
                                 const Buffer& buffer) {
  Peer& peer = engine_.peer(target.peer);
  if (target.peer == engine_.rank() || !peer.is_local()) return send_by_host(target, payload, mode, buffer);
  GpuPart part{.buffer = buffer, .payload = payload, .stand_in = {}};
  if (payload.type || !buffer.is_whole()) {
    if (const Result<> packed = pack(part); !packed) {
      engine_.note_gpu_reason(peer, packed.error(), packed.error().error_class() == ErrorClass::no_mem);
      return send_by_host(target, payload, mode, buffer);
    }
  }
  Request* send = engine_.make_send(target, payload, mode);
  send->peer = &peer;
  send->gpu = std::make_unique<GpuPart>(std::move(part));
  engine_.start_offer(peer, *send);
  return send;
}

Result<> GpuMessages::pack(GpuPart& part) {
  if (!part.payload.type)
    return isthmus::fail(ErrorClass::other, "a message that goes on beyond its allocation is not offered");
  auto packed = layouts_.pack(engine_on(part.buffer.device), part.payload);
  if (!packed) return std::unexpected(std::move(packed).error());
  const Payload payload = Payload::of(packed->data(), part.payload.bytes);
  auto buffer = find(payload);
  if (!buffer) return std::unexpected(std::move(buffer).error());
  if (!*buffer) return isthmus::fail(ErrorClass::intern, "memory of a GPU that is none");
  part.buffer = **buffer;
  part.payload = payload;
  part.packed = std::move(*packed);
  return {};
}

Request* GpuMessages::send_by_host(const Target& target, const Payload& payload, SendMode mode,
                                   const Buffer& buffer) {
  auto staging = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
  const Payload packed = Payload::of(staging.get(), payload.bytes);
  auto copy = start_copy(buffer, payload, packed, payload.bytes);
  const Result<> copied = copy ? copy->wait() : std::unexpected(std::move(copy).error());
  if (!copied) {
    Request* send = engine_.make_send(target, payload, mode);
    fail(*send, copied.error());
    return send;
  }
  Request* send = engine_.start_host_send(target, packed, mode, Start::nonblocking);
  if (send) send->staging = std::move(staging);
  return send;
}

bool GpuMessages::emit(Peer& peer, Request& send, const Target& target) {
  if (!peer.out.open() || !peer.out.has_cell()) return false;
  wire::GpuExport from{.memory = {}, .descriptor = -1, .reserved = 0};
  std::byte* to = peer.out.reserve(sizeof from);
  if (!to) return false;
  auto offer = exporter_.offer(send.gpu->buffer);
  if (offer) {
    from.memory = *offer;
    if (offer->has_descriptor() && handed_[peer.id].insert(offer->allocation).second) {
      if (auto descriptor = exporter_.descriptor(offer->allocation))
        send.gpu->descriptor = std::move(*descriptor);
      from.descriptor = send.gpu->descriptor.get();
    }
  } else {
    // The receiver will find nothing to open and ask for the bytes.
    engine_.note_gpu_reason(peer, offer.error(), true);
    from.memory.bytes = send.payload.bytes;
  }
  std::memcpy(to, &from, sizeof from);
  const wire::GpuOffer head{.sender = send.cookie(), .bytes = send.payload.bytes};
  peer.out.publish_reserved({.context = target.context,
                             .source = target.source,
                             .tag = target.tag,
                             .size = sizeof from,
                             .kind = wire::CellKind::gpu_offer,
                             .flag = wire::CellFlag::none,
                             .reserved = 0},
                            &head, sizeof head);
  return true;
}

void GpuMessages::stage(Peer& peer, const wire::StageRequest& wanted) {
  Request* send = engine_.requests_.find(wanted.sender);
  if (!send || send->kind != Request::Kind::send || send->peer != &peer || send->complete || send->unsent ||
      send->transfer != Request::Transfer::none || !send->gpu || send->gpu->stand_in)
    return engine_.malformed(peer, "asks for a copy of a send that is not pending");
  // What it has not open now is offered with its descriptor again.
  handed_[peer.id].erase(send->gpu->buffer.allocation);
  send->gpu->stand_in = std::make_unique_for_overwrite<std::byte[]>(send->payload.bytes);
  const Payload packed = Payload::of(send->gpu->stand_in.get(), send->payload.bytes);
  send->transfer = Request::Transfer::copy;
  run(start_copy(send->gpu->buffer, send->gpu->payload, packed, packed.bytes), {.copy = {},
                                                                                .purpose = Purpose::stage,
                                                                                .request = send->cookie(),
                                                                                .answer = wanted.receiver,
                                                                                .mapping = {}});
}

// --- receiving

void GpuMessages::prepare(Request& receive, const Buffer& buffer) {
  auto stand_in = std::make_unique_for_overwrite<std::byte[]>(receive.payload.bytes);
  const Payload packed = Payload::of(stand_in.get(), receive.payload.bytes);
  receive.gpu = std::make_unique<GpuPart>(
      GpuPart{.buffer = buffer, .payload = receive.payload, .stand_in = std::move(stand_in)});
  receive.payload = packed;
}

Result<> GpuMessages::copy_from_peer(Peer& peer, Request& receive, const wire::GpuOffer& offer,
                                     const wire::GpuExport& from) {
  if (from.memory.exporter == 0) return isthmus::fail(ErrorClass::other, "the sender cannot export it");
  Payload target = receive.payload;
  Buffer near;
  if (receive.gpu) {
    target = receive.gpu->payload;
    near = receive.gpu->buffer;
  } else {
    const auto device = gpus_.find(from.memory.device);
    if (!device) return isthmus::fail(ErrorClass::other, "this process does not see the sender's GPU");
    near.device = *device;
  }
  std::shared_ptr<const Mapping> mapping;
  std::byte* source = nullptr;
  if (from.memory.exporter == self_.nonce) {  // another rank of this process
    source = reinterpret_cast<std::byte*>(from.memory.base) + from.memory.offset;
  } else {
    auto mapped = map(peer, from, near.device);
    if (!mapped) return std::unexpected(std::move(mapped).error());
    mapping = std::move(*mapped);
    source = mapping->at(from.memory);
    if (!source) return isthmus::fail(ErrorClass::intern, "the offer names more than its allocation has");
  }
  auto copy = start_copy(near, Payload::of(source, offer.bytes), target, receive.limit);
  if (!copy) return std::unexpected(std::move(copy).error());
  receive.transfer = Request::Transfer::copy;
  peer.traffic.add_received(Protocol::gpu_copy, receive.limit);
  running_.push_back(
      {std::move(*copy), Purpose::land_from_peer, receive.cookie(), offer.sender, std::move(mapping)});
  return {};
}

Result<std::shared_ptr<const Mapping>> GpuMessages::map(Peer& peer, const wire::GpuExport& from,
                                                        cuda::Device local) {
  if (auto known = mappings_.find(from.memory, local)) return known;
  UniqueFd descriptor;
  if (from.memory.has_descriptor()) {
    if (from.descriptor < 0)
      return isthmus::fail(ErrorClass::other,
                           "its descriptor has been offered before, and the memory is not open any more");
    if (!peer.probed) engine_.probe_reach(peer);
    if (!peer.pull)
      return isthmus::fail(ErrorClass::other,
                           "the descriptor of its GPU memory cannot be had: " + peer.pull.error().text);
    auto fetched = fetch_descriptor(peer.pid, from.descriptor);
    if (!fetched) return std::unexpected(std::move(fetched).error());
    descriptor = std::move(*fetched);
  }
  return mappings_.open(from.memory, local, descriptor.get());
}

// --- copies under way

bool GpuMessages::may_finish(Request& request) {
  GpuPart& part = *request.gpu;
  if (request.kind == Request::Kind::send && request.peer)
    request.peer->traffic.add_sent(part.stand_in ? Protocol::gpu_staged : Protocol::gpu_copy,
                                   part.payload.bytes);
  const bool in_stand_in = request.kind == Request::Kind::receive && !part.landed && !request.cancelled &&
                           request.matched && request.status.bytes > 0;
  if (!in_stand_in) return true;
  request.transfer = Request::Transfer::copy;
  const Payload arrived = Payload::of(request.payload.data, request.status.bytes);
  run(start_copy(part.buffer, arrived, part.payload, arrived.bytes), {.copy = PendingCopy(),
                                                                      .purpose = Purpose::land,
                                                                      .request = request.cookie(),
                                                                      .answer = 0,
                                                                      .mapping = {}});
  return false;
}

void GpuMessages::run(Result<PendingCopy> copy, Running running) {
  if (!copy) return ended(running, std::unexpected(std::move(copy).error()));
  running.copy = std::move(*copy);
  running_.push_back(std::move(running));
}

unsigned GpuMessages::poll() {
  unsigned happened = 0;
  for (std::size_t i = 0; i < running_.size();) {
    const Result<bool> finished = running_[i].copy.is_done();
    if (finished && !*finished) {
      ++i;
      continue;
    }
    std::swap(running_[i], running_.back());
    Running running = std::move(running_.back());
    running_.pop_back();
    ended(running, finished);
    ++happened;
  }
  return happened;
}

void GpuMessages::ended(Running& running, const Result<bool>& result) {
  Request* request = engine_.requests_.find(running.request);
  if (!request) return;
  if (running.purpose == Purpose::stage) {
    request->transfer = Request::Transfer::none;
    request->payload = Payload::of(request->gpu->stand_in.get(), result ? request->payload.bytes : 0);
    const wire::StagedOffer offer{.receiver = running.answer,
                                  .sender = request->cookie(),
                                  .bytes = request->payload.bytes,
                                  .address = reinterpret_cast<std::uint64_t>(request->payload.data)};
    engine_.send_control(*request->peer, wire::CellKind::gpu_staged, &offer, sizeof offer);
    if (!result) fail(*request, result.error());
    return;
  }
  if (running.purpose == Purpose::land_from_peer)
    engine_.send_control(*request->peer, wire::CellKind::share_done, &running.answer, sizeof running.answer);
  if (request->gpu) request->gpu->landed = true;
  if (!result) return fail(*request, result.error());
  engine_.finish(*request);
}

void GpuMessages::fail(Request& request, const Error& error) {
  if (!std::exchange(complained_, true) && engine_.settings_.warn) warn(error.text());
  request.status.error = static_cast<int>(error.error_class());
  engine_.finish(request);
}

}  // namespace isthmus
