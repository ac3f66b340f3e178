// How ranks of one host tell each other of allocations in GPU memory, and open what they are told.
#include "p2p/gpu_memory/export_table.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "gpu/driver/cuda_context.hpp"
#include "gpu/driver/cuda_error.hpp"
#include "gpu/driver/refusal.hpp"
#include "launch/visit/descriptor_box.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/peer_access.hpp"

namespace isthmus {
namespace {

/// A descriptor of another process (Linux 5.6), which may be asked for by whoever may read its memory.
Result<UniqueFd> fetch_descriptor(pid_t pid, int descriptor) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  UniqueFd fetched;
  if (process) fetched = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
  if (!fetched)
    return fail(ErrorClass::other,
                std::string("the descriptor of its GPU memory cannot be had: ") + std::strerror(errno));
  return fetched;
}

}  // namespace

ExportTable::ExportTable(Links& links, PeerAccess& access, GpuCopies& copies, const GpuList& gpus,
                         const cuda::Functions& functions, const ProcessIdentity& self)
    : links_(links),
      access_(access),
      copies_(copies),
      gpus_(gpus),
      self_(self),
      exporter_(functions, self),
      mappings_(copies.contexts(), gpus, self_, {}) {}

void ExportTable::release_dependents() {
  for (GpuDependent* dependent : dependents_)
    dependent->release();
}

GpuExports& ExportTable::of(const Peer& peer) {
  const unsigned renewals = copies_.contexts().renewals();
  if (std::exchange(renewals_, renewals) != renewals) [[unlikely]]
    for (auto& [id, known] : peers_)
      known.try_again();
  return peers_[peer.id];
}

// --- what this rank tells

ExportTable::Announcement ExportTable::announce(Peer& peer, GpuPart& part) {
  GpuExports& known = of(peer);
  if (const auto number = known.number_of(part.buffer.allocation))
    return {.number = *number, .in_full = false};
  tell_freed();
  Announcement announcement{.number = known.next_number()};
  announcement.what.descriptor = -1;
  // Within a process cudaMalloc memory is reached as it is, and other memory by GPUs that have no access to
  // it only by a mapping.
  const bool is_named = links_.shares_process(peer) && export_kind_of(part.buffer.kind) == ExportKind::legacy;
  auto offer = is_named ? exporter_.name(part.buffer) : exporter_.offer(part.buffer);
  announcement.is_handed = offer && !is_named;
  if (!offer) {
    announcement.what.memory.bytes = part.buffer.bytes;
    return announcement;
  }
  announcement.what.memory = *offer;
  if (announcement.is_handed && offer->has_descriptor() && !known.may_be_open(offer->allocation)) {
    if (auto descriptor = exporter_.descriptor(offer->allocation)) part.descriptor = std::move(*descriptor);
  }
  return announcement;
}

bool ExportTable::publish(Peer& peer, wire::CellHeader header, const void* payload,
                          Announcement& announcement, GpuPart& part) {
  const bool has_shape = header.kind == wire::CellKind::gpu_offer && part.shape.level_count != 0;
  const std::size_t told = announcement.in_full ? sizeof announcement.what : 0;
  header.size = static_cast<std::uint32_t>(told + (has_shape ? sizeof part.shape : 0));
  if (header.size == 0) {
    peer.out.publish(header, payload, wire::inline_capacity);
    return true;
  }
  std::byte* to = peer.out.reserve(header.size);
  if (!to) return false;
  const bool is_export = announcement.in_full && announcement.what.memory.exporter != 0;
  GpuExports& known = of(peer);
  // After the cell is written nothing may fail.
  if (announcement.is_handed) known.handed(part.buffer.allocation);
  if (announcement.in_full) {
    if (part.descriptor) hand_over({&peer.id, 1}, announcement.what, part.descriptor);
    std::memcpy(to, &announcement.what, sizeof announcement.what);
  }
  if (has_shape) std::memcpy(to + told, &part.shape, sizeof part.shape);
  peer.out.publish_reserved(header, payload, wire::inline_capacity);
  if (is_export) known.told(part.buffer.allocation);
  return true;
}

void ExportTable::hand_over(std::span<const PeerId> peers, wire::GpuExport& what, UniqueFd& descriptor) {
  what.descriptor = descriptor.get();
  launch::DescriptorBox* const box = links_.job().box.get();
  if (!box || !descriptor) return;
  if (++last_ticket_ == 0) ++last_ticket_;
  const wire::DescriptorTicket ticket{what.memory.exporter, last_ticket_};
  const auto left = std::ranges::count_if(
      peers, [&](PeerId id) { return box->leave(id, ticket, descriptor.get()).has_value(); });
  if (left > 0) what.ticket = last_ticket_;
  if (static_cast<std::size_t>(left) < peers.size()) return;
  what.descriptor = -1;
  descriptor.reset();
}

void ExportTable::handed(PeerId peer, std::uint64_t allocation) {
  of(links_.peer(peer)).handed(allocation);
}

void ExportTable::tell_freed() {
  exporter_.take_freed([this](std::uint64_t allocation) {
    for (auto& [id, known] : peers_) {
      Peer& peer = links_.peer(id);
      if (known.may_be_open(allocation)) links_.prepare_answer(peer);
      if (!known.forget(allocation)) continue;
      const wire::GpuFreed freed{.allocation = allocation};
      links_.send_control(peer, wire::CellKind::gpu_freed, &freed, sizeof freed);
    }
  });
}

// --- what peers tell

wire::GpuExport ExportTable::resolve(Peer& peer, std::uint32_t number, const std::byte* piece,
                                     std::uint64_t offset, std::uint64_t bytes) {
  wire::GpuExport what{};
  if (number >= wire::told_exports) return what;
  if (piece) {
    std::memcpy(&what, piece, sizeof what);
    if (what.memory.exporter != 0 && !is_exporter(peer, what.memory.exporter)) {
      if (what.ticket != 0 && links_.job().box)
        static_cast<void>(links_.job().box->take_now(what.left()));  // and close it
      links_.malformed(peer, "names GPU memory of another process as its own");
      return {};
    }
    if (what.memory.exporter != 0) of(peer).heard(number, what);
    expect_descriptor(peer, what);
  } else {
    what = of(peer).heard(number);
  }
  what.memory.offset = offset;
  what.memory.bytes = bytes;
  return what;
}

bool ExportTable::is_exporter(const Peer& peer, std::uint64_t exporter) {
  if (const std::uint64_t known = of(peer).exporter(); known != 0) return known == exporter;
  return exporter != self_.nonce && std::ranges::none_of(peers_, [exporter](const auto& each) {
           return each.second.exporter() == exporter;
         });
}

void ExportTable::expect_descriptor(const Peer& peer, const wire::GpuExport& what) {
  launch::DescriptorBox* const box = links_.job().box.get();
  if (what.ticket == 0 || !box) return;
  GpuExports& known = of(peer);
  const std::uint64_t allocation = what.memory.allocation;
  // A cell that is read again, because memory ran out at the first time, has it taken already.
  if (known.keeps(allocation, what.left())) return;
  // One look for many: the others are looked for together.
  const bool is_alone = !known.awaits_any();
  const bool waits = known.await(allocation, what.left(), std::chrono::steady_clock::now());
  const auto take = [box](const wire::DescriptorTicket& ticket) { return box->take_now(ticket); };
  if (!is_alone || !known.look_for(allocation, what.left(), take)) awaits_ |= waits;
}

UniqueFd ExportTable::take(PeerId peer, const wire::GpuExport& what) {
  launch::DescriptorBox* const box = links_.job().box.get();
  if (what.ticket == 0 || !box) return {};
  GpuExports& known = of(links_.peer(peer));
  if (!known.may_wait()) return box->take_now(what.left());
  UniqueFd taken = box->take(what.left());
  if (!taken) known.give_up();
  return taken;
}

void ExportTable::forget(Peer& peer, const wire::GpuFreed& freed) {
  const std::uint64_t exporter = of(peer).exporter();
  for (GpuDependent* dependent : dependents_)
    dependent->forget(exporter, freed.allocation);
  mappings_.forget(exporter, freed.allocation);
  of(peer).heard_freed(freed.allocation);
}

void ExportTable::lost(const Peer& peer) noexcept {
  if (const auto known = peers_.find(peer.id); known != peers_.end()) known->second.give_up();
}

void ExportTable::look_for_awaited() {
  launch::DescriptorBox* const box = links_.job().box.get();
  const auto now = std::chrono::steady_clock::now();
  bool awaits = false;
  for (auto& [id, known] : peers_) {
    if (!known.awaits_any()) continue;
    known.look_for_awaited(now, launch::DescriptorBox::patience,
                           [box](const wire::DescriptorTicket& ticket) { return box->take_now(ticket); });
    awaits |= known.awaits_any();
  }
  awaits_ = awaits;
}

// --- what is open here

Result<ExportTable::Opened> ExportTable::open(PeerId peer, const wire::GpuExport& from, cuda::Device local,
                                              UniqueFd descriptor) {
  Result<bool> is_here = reaches_as_it_is(links_.peer(peer), from.memory, local);
  if (!is_here) return std::unexpected(std::move(is_here).error());
  if (*is_here) return Opened{.mapping = {}, .base = reinterpret_cast<std::byte*>(from.memory.base)};
  if (!is_exporter(links_.peer(peer), from.memory.exporter))
    return fail(ErrorClass::intern, "it names GPU memory of another process as its own");
  of(links_.peer(peer)).heard_from(from.memory);
  of(links_.peer(peer)).keep(from.memory.allocation, std::move(descriptor));
  auto mapping = map(links_.peer(peer), from, local);
  if (!mapping) return std::unexpected(std::move(mapping).error());
  return Opened{.mapping = *mapping, .base = (*mapping)->base()};
}

Result<bool> ExportTable::reaches_as_it_is(const Peer& peer, const Export& what, cuda::Device local) {
  if (links_.job().in_process) return true;
  if (!links_.shares_process(peer)) return false;
  const auto home = gpus_.find(what.device);
  if (!home) return fail(ErrorClass::other, "this process does not see the GPU of that memory");
  if (*home == local) return true;
  // What has a descriptor is mapped, as from another process: the mapping gives `local` its access.
  if (what.has_descriptor()) return false;
  if (gpus_.link(local, *home) == PeerLink::none)
    return fail(ErrorClass::unsupported_operation, std::string(gpu_refusal::out_of_reach.text));
  cuda::PrimaryContexts& contexts = copies_.contexts();
  auto mine = contexts.of(local);
  auto theirs = contexts.of(*home);
  if (!mine) return std::unexpected(std::move(mine).error());
  if (!theirs) return std::unexpected(std::move(theirs).error());
  const cuda::ContextScope scope(contexts.functions(), *mine);
  const cuda::Status status = contexts.functions().context_enable_peer(*theirs, 0);
  if (status == cuda::Status::success || status == cuda::Status::peer_access_already_enabled) return true;
  return cuda::fail(contexts.functions(), status, "give a GPU access to another's memory");
}

Result<ExportTable::Reached> ExportTable::reach(Peer& peer, const wire::GpuExport& what, cuda::Device local) {
  if (what.memory.exporter == 0) return fail(ErrorClass::other, "it has not been told which memory it is");
  Result<bool> is_here = reaches_as_it_is(peer, what.memory, local);
  if (!is_here) {
    note_refusal(peer, what.memory, is_here.error());
    return std::unexpected(std::move(is_here).error());
  }
  if (*is_here) {
    of(peer).take_descriptor(what.memory.allocation).reset();
    return Reached{.address = reinterpret_cast<std::byte*>(what.memory.base) + what.memory.offset,
                   .mapping = {}};
  }
  auto mapped = map(peer, what, local);
  if (!mapped) return std::unexpected(std::move(mapped).error());
  std::byte* const address = (*mapped)->at(what.memory);
  if (!address) return fail(ErrorClass::intern, "the peer names more than its allocation has");
  return Reached{.address = address, .mapping = std::move(*mapped)};
}

Result<std::shared_ptr<const Mapping>> ExportTable::map(Peer& peer, const wire::GpuExport& what,
                                                        cuda::Device local) {
  UniqueFd descriptor = of(peer).take_descriptor(what.memory.allocation);
  if (auto known = mappings_.find(what.memory, local)) return known;
  if (of(peer).is_unreachable(what.memory.allocation))
    return fail(ErrorClass::other, "this memory has been refused before");
  if (what.memory.has_descriptor() && !descriptor) {
    auto fetched = descriptor_of(peer, what);
    if (!fetched) {
      if (fetched.error().error_class() != ErrorClass::pending)
        of(peer).note(GpuExports::Whose::peers, what.memory.kind, fetched.error().text());
      return std::unexpected(std::move(fetched).error());
    }
    descriptor = std::move(*fetched);
  }
  ISTHMUS_TRY(copies_.check_alive(local));
  for (const std::uint64_t gone : mappings_.overlapping(what.memory))
    for (GpuDependent* dependent : dependents_)
      dependent->forget(what.memory.exporter, gone);
  auto mapping = mappings_.open(what.memory, local, descriptor.get());
  if (mapping)
    of(peer).note(GpuExports::Whose::peers, what.memory.kind, "");
  else
    note_refusal(peer, what.memory, mapping.error());
  return mapping;
}

void ExportTable::note_refusal(Peer& peer, const Export& what, const Error& why) {
  // Where memory is short now, it may be had later.
  if (why.error_class() != ErrorClass::no_mem) of(peer).cannot_reach(what.allocation);
  of(peer).note(GpuExports::Whose::peers, what.kind, why.text());
}

/// Of the exporter's own, where none came through the box.
Result<UniqueFd> ExportTable::descriptor_of(Peer& peer, const wire::GpuExport& what) {
  if (what.descriptor < 0)
    return fail(
        what.ticket != 0 ? ErrorClass::other : ErrorClass::pending,
        what.ticket != 0
            ? "its descriptor, which was left for this process, is gone, and the memory is not open any more"
            : "its descriptor has been offered before, and the memory is not open any more");
  access_.probe(peer);
  if (!peer.pull)
    return fail(ErrorClass::other,
                "the descriptor of its GPU memory cannot be had: " + peer.pull.error().text);
  return fetch_descriptor(peer.pid, what.descriptor);
}

}  // namespace isthmus
