#include "coll/gpu_team.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "coll/step.hpp"
#include "memory/cuda_error.hpp"

namespace isthmus::coll {
namespace {

template <class T>
void put(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool is_named(const GpuSide& side) {
  return side.entry < GpuTable::size;
}

}  // namespace

bool is_in_reach(GpuMessages& gpu, PeerId self, const Buffer& buffer) {
  if (gpu.contexts().reaches(buffer)) return true;
  gpu.note(self, Error(ErrorClass::other,
                       "a buffer lies in a CUDA context of the program's own (cuCtxCreate), "
                       "and collectives run in the device's primary context"));
  return false;
}

GpuTeam::GpuTeam(Team& team, GpuMessages& gpu)
    : team_(team), gpu_(&gpu), tables_(static_cast<std::size_t>(team.size())) {
  gpu.add(*this);
}

GpuTeam::~GpuTeam() {
  if (!gpu_) return;
  gpu_->remove(*this);
  release();
}

void GpuTeam::drop_queues() noexcept {
  if (queues_.empty()) return;
  if (const auto context = gpu_->contexts().of(device_)) {
    const cuda::ContextScope scope(gpu_->contexts().functions(), *context);
    if (!gpu_->contexts().is_alive(device_, life_))
      for (const auto& queue : queues_)
        queue->abandon();
    queues_.clear();
  }
}

void GpuTeam::release() noexcept {
  drop_queues();
  for (GpuTable& table : tables_)
    table.clear();
  staged_ = {};
  pool_.reset();
  gpu_ = nullptr;
}

void GpuTeam::forget(std::uint64_t exporter, std::uint64_t allocation) noexcept {
  for (GpuTable& table : tables_)
    table.forget(exporter, allocation);
}

Result<GpuQueue*> GpuTeam::queue(std::size_t index) {
  if (!gpu_->contexts().is_alive(device_, life_))
    return cuda::fail_after_reset(device_, "during a collective");
  while (queues_.size() <= index) {
    auto made = GpuQueue::make(gpu_->contexts().functions());
    if (!made) return std::unexpected(std::move(made).error());
    queues_.push_back(std::move(*made));
  }
  return queues_[index].get();
}

// --- what this member says

bool GpuTeam::locate(const GpuCall& call, std::array<Buffer, 2>& buffers) {
  if (call.barred) return false;
  const std::array parts{&call.send, &call.receive};
  cuda::Device device = cuda::no_device;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Payload& payload = parts[i]->payload;
    if (payload.bytes == 0) continue;
    auto found = gpu_->find(payload);
    // What is wrong with it, the stand-ins will say.
    if (!found || !*found || payload.type || !(*found)->is_whole()) return false;
    if ((*found)->is_host_readable()) return false;
    buffers[i] = **found;
    if (!is_in_reach(*gpu_, team_.peer(team_.rank()), buffers[i])) return false;
    if (device != cuda::no_device && device != buffers[i].device) return false;
    device = buffers[i].device;
  }
  // A member without bytes of its own goes along once it is known by which GPU.
  return device != cuda::no_device || device_ != cuda::no_device;
}

Result<Buffer> GpuTeam::stage(const Payload& payload, cuda::Device device) {
  staged_ = {};
  if (!pool_) pool_ = std::make_unique<DevicePool>(gpu_->contexts(), DevicePool::Limits{});
  auto taken = pool_->take(device, payload.bytes);
  if (!taken) return std::unexpected(std::move(taken).error());
  staged_ = std::move(*taken);
  const Payload copy = Payload::of(staged_.data(), payload.bytes);
  ISTHMUS_TRY(gpu_->copy(payload, copy));
  auto buffer = gpu_->find(copy);
  if (!buffer) return std::unexpected(std::move(buffer).error());
  if (!*buffer) return fail(ErrorClass::intern, "memory of a GPU that is none");
  return **buffer;
}

Result<> GpuTeam::name(const Buffer& buffer, GpuSide& side, wire::GpuExport& fresh, UniqueFd& descriptor) {
  GpuTable& table = tables_[static_cast<std::size_t>(team_.rank())];
  side.offset = buffer.offset();
  if (const auto known = table.find(buffer)) {
    side.entry = *known;
    return {};
  }
  auto offer = gpu_->exporter().offer(buffer);
  if (!offer) return std::unexpected(std::move(offer).error());
  fresh = {.memory = *offer, .descriptor = -1, .ticket = 0};
  if (offer->has_descriptor()) {
    auto made = gpu_->exporter().descriptor(offer->allocation);
    if (!made) return std::unexpected(std::move(made).error());
    descriptor = std::move(*made);
    std::vector<PeerId> others;
    for (int i = 0; i < team_.size(); ++i)
      if (i != team_.rank()) others.push_back(team_.peer(i));
    gpu_->hand_over(others, fresh, descriptor);
  }
  side.entry = table.pick(buffer);
  side.fresh = 1;
  table.name(side.entry, *offer).here = buffer.base;
  return {};
}

GpuTeam::Said GpuTeam::prepare(const GpuCall& call) {
  Said said;
  said.offer.in_place = call.in_place ? 1 : 0;
  std::array<Buffer, 2> buffers;
  if (!locate(call, buffers)) return said;
  const bool sends = call.send.payload.bytes != 0;
  const bool receives = call.receive.payload.bytes != 0;
  const cuda::Device device = sends ? buffers[0].device : receives ? buffers[1].device : device_;
  if (!gpu_->contexts().check_alive(device)) return said;
  // After a reset of the device all members name and open everything anew.
  if (device_ != cuda::no_device && (device_ != device || life_ != gpu_->contexts().life(device_))) {
    said.offer.forgets = 1;
    return said;
  }
  if (std::exchange(device_, device) != device) {
    has_kernels_ = gpu_->kernels().trouble(device).empty();
    life_ = gpu_->contexts().life(device);
  }
  said.offer.has_kernels = has_kernels_ ? 1 : 0;
  Result<> named;
  if (sends && call.send.staged) {
    auto staged = stage(call.send.payload, device);
    if (staged)
      buffers[0] = *staged;
    else
      named = std::unexpected(std::move(staged).error());
  }
  if (named && sends && call.send.offered)
    named = name(buffers[0], said.offer.send, said.more.fresh.send, said.descriptors[0]);
  if (call.root_is_enough && call.root != team_.rank()) named = {};
  if (named && receives && call.receive.offered)
    named = name(buffers[1], said.offer.receive, said.more.fresh.receive, said.descriptors[1]);
  if (call.begins) {
    said.offer.has_begins = 1;
    said.more.begins = *call.begins;
  }
  if (!named) gpu_->note(team_.peer(team_.rank()), named.error());
  said.offer.takes_part = named ? 1 : 0;
  return said;
}

// --- what all say

Result<GpuTeam::Heard> GpuTeam::exchange(const GpuCall& call, const Said& said) {
  Heard heard;
  Step step(team_, call.collective, call.root, call.bytes);
  put(step.room(sizeof said.offer), said.offer);
  if (said.offer.send.fresh != 0 || said.offer.receive.fresh != 0 || said.offer.has_begins != 0)
    put(step.room(slot_bytes), said.more);
  ISTHMUS_TRY(step.exchange());
  for (int i = 0; i < team_.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    GpuOffer& offer = heard.offers[at];
    offer = get<GpuOffer>(step.heard(i, sizeof offer));
    if (offer.send.fresh != 0 || offer.receive.fresh != 0) {
      heard.fresh[at] = get<GpuFresh>(step.heard(i, slot_bytes) + offsetof(GpuSaid, fresh));
      heard.any_fresh = true;
      if (i != team_.rank() && offer.send.fresh != 0)
        heard.descriptors[at][0] = gpu_->take(heard.fresh[at].send);
      if (i != team_.rank() && offer.receive.fresh != 0)
        heard.descriptors[at][1] = gpu_->take(heard.fresh[at].receive);
    }
    if (offer.has_begins != 0)
      heard.begins[at] = get<std::uint64_t>(step.heard(i, slot_bytes) + offsetof(GpuSaid, begins) +
                                            sizeof(std::uint64_t) * static_cast<std::size_t>(team_.rank()));
    heard.all_take_part = heard.all_take_part && offer.takes_part != 0;
    heard.any_forgets = heard.any_forgets || offer.forgets != 0;
  }
  return heard;
}

bool GpuTeam::open(int rank, const GpuSide& side, const wire::GpuExport& from, UniqueFd descriptor) {
  GpuTable::Entry& entry = tables_[static_cast<std::size_t>(rank)].name(side.entry, from.memory);
  auto opened = gpu_->open(team_.peer(rank), from, device_, std::move(descriptor));
  if (!opened) {
    gpu_->note(team_.peer(rank), opened.error());
    return false;
  }
  entry.mapping = std::move(opened->mapping);
  entry.here = opened->base;
  return true;
}

GpuVerdict GpuTeam::open_fresh(Heard& heard) {
  GpuVerdict verdict;
  for (int i = 0; i < team_.size(); ++i) {
    if (i == team_.rank()) continue;
    const auto at = static_cast<std::size_t>(i);
    const GpuOffer& offer = heard.offers[at];
    if (offer.send.fresh != 0 && is_named(offer.send) &&
        !open(i, offer.send, heard.fresh[at].send, std::move(heard.descriptors[at][0])))
      verdict.refused_send |= 1U << at;
    if (offer.receive.fresh != 0 && is_named(offer.receive) &&
        !open(i, offer.receive, heard.fresh[at].receive, std::move(heard.descriptors[at][1])))
      verdict.refused_receive |= 1U << at;
  }
  return verdict;
}

void GpuTeam::refuse(int rank, const GpuSide& side) {
  if (is_named(side)) tables_[static_cast<std::size_t>(rank)][side.entry].refused = true;
}

Result<> GpuTeam::exchange(const GpuCall& call, const Heard& heard, GpuVerdict verdict) {
  Step step(team_, call.collective, call.root, call.bytes);
  put(step.room(sizeof verdict), verdict);
  ISTHMUS_TRY(step.exchange());
  for (int i = 0; i < team_.size(); ++i) {
    const auto other = get<GpuVerdict>(step.heard(i, sizeof verdict));
    verdict.refused_send |= other.refused_send;
    verdict.refused_receive |= other.refused_receive;
  }
  const GpuOffer& own = heard.offers[static_cast<std::size_t>(team_.rank())];
  for (int i = 0; i < team_.size(); ++i) {
    for (const GpuSide* side : {&own.send, &own.receive})
      if (i != team_.rank() && side->fresh != 0)
        gpu_->handed(team_.peer(i), tables_[static_cast<std::size_t>(team_.rank())][side->entry].allocation);
  }
  for (int i = 0; i < team_.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if ((verdict.refused_send >> at & 1U) != 0) refuse(i, heard.offers[at].send);
    if ((verdict.refused_receive >> at & 1U) != 0) refuse(i, heard.offers[at].receive);
  }
  return {};
}

bool GpuTeam::is_refused(int rank, const GpuSide& side) {
  return is_named(side) && tables_[static_cast<std::size_t>(rank)][side.entry].refused;
}

Result<std::byte*> GpuTeam::place_of(int rank, const GpuSide& side, std::uint64_t begin,
                                     std::uint64_t bytes) {
  if (is_named(side)) {
    const GpuTable::Entry& entry = tables_[static_cast<std::size_t>(rank)][side.entry];
    if (entry.here && side.offset <= entry.room && begin <= entry.room - side.offset &&
        bytes <= entry.room - side.offset - begin)
      return entry.here + side.offset + begin;
  }
  return fail(ErrorClass::intern,
              "rank " + std::to_string(rank) + " names GPU memory that it has not handed over");
}

void GpuTeam::give_up(const Said& said, const Heard& heard) {
  // The others have not opened it.
  for (const GpuSide* side : {&said.offer.send, &said.offer.receive})
    if (side->fresh != 0) tables_[static_cast<std::size_t>(team_.rank())].drop(side->entry);
  if (!heard.any_forgets) return;
  for (GpuTable& table : tables_)
    table.clear();
  if (said.offer.forgets == 0) return;
  drop_queues();
  device_ = cuda::no_device;
}

Result<std::optional<GpuView>> GpuTeam::begin(const GpuCall& call) {
  const Said said = prepare(call);
  auto heard = exchange(call, said);
  if (!heard) return std::unexpected(std::move(heard).error());
  if (heard->any_forgets || !heard->all_take_part) {
    give_up(said, *heard);
    return std::nullopt;
  }
  if (heard->any_fresh)
    if (auto agreed = exchange(call, *heard, open_fresh(*heard)); !agreed)
      return std::unexpected(std::move(agreed).error());

  GpuView view{.offers = heard->offers, .begins = heard->begins, .device = device_};
  for (int i = 0; i < team_.size(); ++i) {
    const GpuOffer& offer = heard->offers[static_cast<std::size_t>(i)];
    const bool can_send = !is_refused(i, offer.send);
    const bool must_send = !call.root_is_enough || i == call.root;
    if ((must_send && !can_send) || is_refused(i, offer.receive)) return std::nullopt;
    view.has_kernels = view.has_kernels && offer.has_kernels != 0;
    view.in_place = view.in_place || offer.in_place != 0;
    view.all_send = view.all_send && can_send && is_named(offer.send);
  }
  if (call.needs_kernels && !view.has_kernels) return std::nullopt;
  return view;
}

Result<> GpuTeam::end(const GpuCall& call, Result<> done) {
  staged_ = {};
  const std::int32_t mine = done ? 0 : 1;
  Step step(team_, call.collective, call.root, call.bytes);
  put(step.room(sizeof mine), mine);
  Result<> met = step.exchange();
  for (int i = 0; met && i < team_.size(); ++i)
    if (get<std::int32_t>(step.heard(i, sizeof mine)) != 0 && i != team_.rank())
      met = fail(ErrorClass::other, "the GPU of rank " + std::to_string(i) + " could not do its part");
  return done ? std::move(met) : std::move(done);
}

}  // namespace isthmus::coll
