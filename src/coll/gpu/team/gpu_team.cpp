#include "coll/gpu/team/gpu_team.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "coll/team/step.hpp"
#include "gpu/driver/cuda_error.hpp"

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
  if (reaches(gpu.copies().contexts(), buffer)) return true;
  gpu.note(self, Error(ErrorClass::other,
                       "a buffer lies in a CUDA context of the program's own (cuCtxCreate), "
                       "and collectives run in the device's primary context"));
  return false;
}

GpuTeam::GpuTeam(Team& team, GpuMessages& gpu)
    : team_(team), gpu_(&gpu), tables_(static_cast<std::size_t>(team.size())) {
  gpu.exports().add(*this);
}

GpuTeam::~GpuTeam() {
  if (!gpu_) return;
  gpu_->exports().remove(*this);
  release();
}

void GpuTeam::drop_queues() noexcept {
  if (queues_.empty()) return;
  if (const auto context = gpu_->copies().contexts().of(device_)) {
    const cuda::ContextScope scope(gpu_->copies().contexts().functions(), *context);
    if (!gpu_->copies().contexts().is_alive(device_, life_))
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
  window_ = {};
  rooms_.reset();
  pool_.reset();
  gpu_ = nullptr;
}

void GpuTeam::forget(std::uint64_t exporter, std::uint64_t allocation) noexcept {
  for (GpuTable& table : tables_)
    table.forget(exporter, allocation);
}

Result<GpuQueue*> GpuTeam::queue(std::size_t index) {
  if (!gpu_->copies().contexts().is_alive(device_, life_))
    return cuda::fail_after_reset(device_, "during a collective");
  while (queues_.size() <= index) {
    auto made = GpuQueue::make(gpu_->copies().contexts().functions());
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
    auto found = gpu_->copies().find(payload);
    // What is wrong with it, the stand-ins will say.
    if (!found || !*found || payload.type || !(*found)->is_whole()) return false;
    // Managed memory, which no other process may copy.
    if ((*found)->is_host_readable() && !gpu_->windows().may_serve()) return false;
    buffers[i] = **found;
    if (!is_in_reach(*gpu_, team_.peer(team_.rank()), buffers[i])) return false;
    if (device != cuda::no_device && device != buffers[i].device) return false;
    device = buffers[i].device;
  }
  // A member without bytes of its own goes along once it is known by which GPU.
  return device != cuda::no_device || device_ != cuda::no_device;
}

bool GpuTeam::is_read(const GpuCall& call) const {
  return call.send.payload.bytes != 0 && call.send.offered &&
         (!call.root_is_enough || call.root == team_.rank());
}

bool GpuTeam::can_be_named(const Buffer& buffer) {
  GpuTable& table = tables_[static_cast<std::size_t>(team_.rank())];
  if (const auto known = table.find(buffer)) return !table[*known].refused;
  return gpu_->exports().exporter().offer(buffer).has_value();
}

Result<Buffer> GpuTeam::reserve(std::uint64_t bytes, cuda::Device device) {
  staged_ = {};
  if (!pool_) pool_ = std::make_unique<DevicePool>(gpu_->copies().contexts(), DevicePool::Limits{});
  auto taken = pool_->take(device, bytes);
  if (!taken) return std::unexpected(std::move(taken).error());
  staged_ = std::move(*taken);
  auto buffer = gpu_->copies().find(Payload::of(staged_.data(), bytes));
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
  auto offer = gpu_->exports().exporter().offer(buffer);
  if (!offer) return std::unexpected(std::move(offer).error());
  fresh = {.memory = *offer, .descriptor = -1, .ticket = 0};
  if (offer->has_descriptor()) {
    auto made = gpu_->exports().exporter().descriptor(offer->allocation);
    if (!made) return std::unexpected(std::move(made).error());
    descriptor = std::move(*made);
    std::vector<PeerId> others;
    for (int i = 0; i < team_.size(); ++i)
      if (i != team_.rank()) others.push_back(team_.peer(i));
    gpu_->exports().hand_over(others, fresh, descriptor);
  }
  side.entry = table.pick(buffer);
  side.fresh = 1;
  table.name(side.entry, *offer).here = buffer.base;
  return {};
}

Result<bool> GpuTeam::offer_buffers(const GpuCall& call, std::array<Buffer, 2>& buffers, Said& said) {
  const bool sends = call.send.payload.bytes != 0;
  const bool receives = call.receive.payload.bytes != 0;
  Result<> named;
  const Buffer seen = buffers[0];
  if (sends && call.send.staged) {
    auto room = reserve(call.send.payload.bytes, seen.device);
    if (room)
      buffers[0] = *room;
    else
      named = std::unexpected(std::move(room).error());
  }
  // What others can do without is no reason.
  const bool is_closed = (is_read(call) && (!named || !can_be_named(buffers[0]))) ||
                         (receives && call.receive.offered && !can_be_named(buffers[1]));
  if (is_closed && gpu_->windows().may_serve()) return offer_window(call, said);
  if (named && sends && call.send.staged)
    named =
        gpu_->copies().copy(seen, call.send.payload, Payload::of(staged_.data(), call.send.payload.bytes));
  if (named && sends && call.send.offered)
    named = name(buffers[0], said.offer.send, said.more.fresh.send, said.descriptors[0]);
  if (call.root_is_enough && call.root != team_.rank()) named = {};
  if (named && receives && call.receive.offered)
    named = name(buffers[1], said.offer.receive, said.more.fresh.receive, said.descriptors[1]);
  if (call.begins) {
    said.offer.has_begins = 1;
    said.more.begins = *call.begins;
  }
  if (!named) return std::unexpected(std::move(named).error());
  return true;
}

Result<bool> GpuTeam::offer_window(const GpuCall& call, Said& said) {
  said.offer.windows = GpuWindowUse::used;
  if (!is_read(call)) return true;
  auto window = gpu_->windows().lend_window(device_);
  if (!window) return std::unexpected(std::move(window).error());
  window_ = std::move(*window);
  said.offer.window = static_cast<std::uint16_t>(
      std::min<std::uint64_t>(window_.buffer.bytes / GpuOffer::window_unit, UINT16_MAX));
  ISTHMUS_TRY(name(window_.buffer, said.offer.send, said.more.fresh.send, said.descriptors[0]));
  return !is_refused(team_.rank(), said.offer.send);
}

GpuTeam::Said GpuTeam::prepare(const GpuCall& call, bool by_window) {
  Said said;
  said.offer.in_place = call.in_place ? 1 : 0;
  said.offer.longest = call.longest;
  std::array<Buffer, 2> buffers;
  if (!locate(call, buffers)) return said;
  const bool sends = call.send.payload.bytes != 0;
  const bool receives = call.receive.payload.bytes != 0;
  const cuda::Device device = sends ? buffers[0].device : receives ? buffers[1].device : device_;
  if (!gpu_->copies().contexts().check_alive(device)) return said;
  // After a reset of the device all members name and open everything anew.
  if (device_ != cuda::no_device && (device_ != device || life_ != gpu_->copies().contexts().life(device_))) {
    said.offer.forgets = 1;
    return said;
  }
  if (std::exchange(device_, device) != device) {
    has_kernels_ = gpu_->copies().kernels().trouble(device).empty();
    life_ = gpu_->copies().contexts().life(device);
  }
  said.offer.has_kernels = has_kernels_ ? 1 : 0;
  const bool is_open = is_read(call) || (receives && call.receive.offered);
  said.offer.windows = !gpu_->windows().may_serve() ? GpuWindowUse::never
                       : is_open                    ? GpuWindowUse::possible
                                                    : GpuWindowUse::either;
  const Result<bool> offered = by_window ? offer_window(call, said) : offer_buffers(call, buffers, said);
  if (!offered) gpu_->note(team_.peer(team_.rank()), offered.error());
  said.offer.takes_part = offered && *offered ? 1 : 0;
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
    // What this member has said it knows better than what stands in memory that others write.
    const bool is_own = i == team_.rank();
    offer = is_own ? said.offer : get<GpuOffer>(step.heard(i, sizeof offer));
    if (offer.send.fresh != 0 || offer.receive.fresh != 0) {
      heard.fresh[at] =
          is_own ? said.more.fresh : get<GpuFresh>(step.heard(i, slot_bytes) + offsetof(GpuSaid, fresh));
      heard.any_fresh = true;
      const PeerId peer = team_.peer(i);
      if (!is_own && offer.send.fresh != 0)
        heard.descriptors[at][0] = gpu_->exports().take(peer, heard.fresh[at].send);
      if (!is_own && offer.receive.fresh != 0)
        heard.descriptors[at][1] = gpu_->exports().take(peer, heard.fresh[at].receive);
    }
    if (offer.has_begins != 0 && is_own)
      heard.begins[at] = said.more.begins[at];
    else if (offer.has_begins != 0)
      heard.begins[at] = get<std::uint64_t>(step.heard(i, slot_bytes) + offsetof(GpuSaid, begins) +
                                            sizeof(std::uint64_t) * static_cast<std::size_t>(team_.rank()));
    heard.all_take_part = heard.all_take_part && offer.takes_part != 0;
    heard.any_forgets = heard.any_forgets || offer.forgets != 0;
    heard.any_by_window = heard.any_by_window || offer.windows == GpuWindowUse::used;
    heard.any_not_by_window = heard.any_not_by_window || offer.windows == GpuWindowUse::possible ||
                              offer.windows == GpuWindowUse::never;
    heard.all_may_use_windows = heard.all_may_use_windows && offer.windows != GpuWindowUse::never;
  }
  return heard;
}

bool GpuTeam::open(int rank, const GpuSide& side, const wire::GpuExport& from, UniqueFd descriptor) {
  GpuTable::Entry& entry = tables_[static_cast<std::size_t>(rank)].name(side.entry, from.memory);
  auto opened = gpu_->exports().open(team_.peer(rank), from, device_, std::move(descriptor));
  if (!opened) {
    reasons_.emplace_back(team_.peer(rank), std::move(opened).error());
    return false;
  }
  // The driver knows the size of what was opened; a peer may say anything, also of what is open already.
  if (opened->mapping) entry.room = opened->mapping->bytes();
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
        gpu_->exports().handed(team_.peer(i),
                               tables_[static_cast<std::size_t>(team_.rank())][side->entry].allocation);
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
  rooms_.reset();
  rooms_have_failed_ = false;
  short_calls_ = 0;
  if (said.offer.forgets == 0) return;
  drop_queues();
  device_ = cuda::no_device;
}

std::optional<GpuView> GpuTeam::view_of(const GpuCall& call, const Heard& heard) {
  GpuView view{.offers = heard.offers,
               .begins = heard.begins,
               .device = device_,
               .by_window = heard.is_by_window(),
               .half_window = UINT16_MAX * GpuOffer::window_unit};
  for (int i = 0; i < team_.size(); ++i) {
    const GpuOffer& offer = heard.offers[static_cast<std::size_t>(i)];
    const bool can_send = !is_refused(i, offer.send);
    const bool must_send = !call.root_is_enough || i == call.root;
    if ((must_send && !can_send) || is_refused(i, offer.receive)) return std::nullopt;
    view.has_kernels = view.has_kernels && offer.has_kernels != 0;
    view.in_place = view.in_place || offer.in_place != 0;
    view.all_send = view.all_send && can_send && is_named(offer.send);
    view.longest = std::max(view.longest, offer.longest);
    if (offer.window != 0)
      view.half_window = std::min(view.half_window, offer.window * GpuOffer::window_unit / 2);
  }
  return view;
}

std::nullopt_t GpuTeam::by_hosts() {
  for (const auto& [peer, why] : reasons_)
    gpu_->note(peer, why);
  window_ = {};
  return std::nullopt;
}

Result<std::optional<GpuView>> GpuTeam::begin(const GpuCall& call) {
  reasons_.clear();
  window_ = {};
  for (const bool by_window : {false, true}) {
    const Said said = prepare(call, by_window);
    auto heard = exchange(call, said);
    if (!heard) return std::unexpected(std::move(heard).error());
    if (heard->any_forgets || !heard->all_take_part) {
      give_up(said, *heard);
      return by_hosts();
    }
    if (heard->any_fresh)
      if (auto agreed = exchange(call, *heard, open_fresh(*heard)); !agreed)
        return std::unexpected(std::move(agreed).error());
    const auto view = view_of(call, *heard);
    if (view && call.needs_kernels && !view->has_kernels) return by_hosts();
    if (view && !heard->is_mixed()) return view;
    if (heard->is_by_window() || !heard->all_may_use_windows) break;
  }
  return by_hosts();
}

Result<> GpuTeam::end(const GpuCall& call, Result<> done) {
  staged_ = {};
  Result<> met = meet(call, std::move(done));
  // Other communicators lend it, too: not before everybody has read it.
  window_ = {};
  return met;
}

Result<> GpuTeam::meet(const GpuCall& call, Result<> done) {
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
