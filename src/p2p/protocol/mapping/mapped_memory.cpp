#include "p2p/protocol/mapping/mapped_memory.hpp"

#include <sys/random.h>

#include <new>
#include <utility>

#include "p2p/active/cpu_destination.hpp"
#include "wire/mapping.hpp"

namespace isthmus {

/// What the program has, until it frees it.
class MappedMemory::Block final : public Allocation {
 public:
  Block(MappedMemory& owner, SharedMemory memory) : owner_(owner) {
    const OwnAllocations::Entry& kept = owner_.own_.add(std::move(memory));
    number_ = kept.number;
    data_ = kept.memory.range.data();
  }
  ~Block() override { owner_.free(number_); }

 private:
  MappedMemory& owner_;
  std::uint32_t number_ = 0;
};

namespace {

/// One processor alone: 1 MiB one way 27 us, by both with process_vm_* 60, through the ring 115; 64 KiB 2.3,
/// 6.5 and 8.9 (EPYC of 2 cores, virtual; medians of 57 rounds).
Probed ask_of_mapped(const PairFacts& facts) noexcept {
  if (!facts.is_other_process()) return std::unexpected(no_neighbour);
  if (facts.memory != SendersMemory::allocated)
    return std::unexpected("the sender's memory is not of MPI_Alloc_mem");
  return Serves{};
}

}  // namespace

constinit const Probe MappedMemory::probe{Protocol::mapped, ChannelId::mapping, Cost::one_copy,
                                          &ask_of_mapped};

MappedMemory::MappedMemory(Links& links, PollList& polled, PeerMemories& memories, CellHandlers& handlers)
    : links_(links), polled_(polled), own_(links.job().members.size()), heard_(links.job().members.size()) {
  memories.add(*this);
  links.probes().add(probe);
  handlers.add<&MappedMemory::told>(wire::CellKind::memory_told, *this);
  handlers.add<&MappedMemory::freed>(wire::CellKind::memory_freed, *this);
  handlers.add<&MappedMemory::missed>(wire::CellKind::memory_missed, *this);
}

// The owner's side.

std::unique_ptr<Allocation> MappedMemory::allocate(std::size_t bytes, std::size_t alignment) {
  // Short messages have another way, and who is alone has no use for it.
  const bool is_wanted = links_.settings().mapping != MappingSetting::off && bytes > links_.eager_limit() &&
                         links_.job().members.size() > 1;
  if (!is_wanted) return nullptr;
  std::string why_not = why_not_shared();
  if (why_not.empty()) {
    auto memory = SharedMemory::make(bytes, alignment);
    if (memory) return std::make_unique<Block>(*this, std::move(*memory));
    why_not = memory.error().text();
  }
  ++apart_;
  why_apart_ = std::move(why_not);
  return nullptr;
}

std::string MappedMemory::why_not_shared() const {
  if (!links_.job().box) return "nothing hands descriptors between these ranks";
  if (!own_.has_room()) return "a rank shares " + std::to_string(OwnAllocations::most) + " at a time";
  return why_no_shared_memory();
}

std::uint32_t MappedMemory::announce(Peer& peer, const void* data, std::uint64_t bytes) noexcept try {
  if (peer.beside) return 0;
  OwnAllocations::Entry* const allocation = own_.find(data, bytes);
  if (!allocation || !links_.same_machine(peer.slot)) return 0;
  return allocation->told[peer.slot] || tell(peer, *allocation) ? allocation->number : 0;
} catch (const std::bad_alloc&) {
  return 0;  // the next message tells it
}

/// Hands an allocation to a peer. False where the box takes no descriptor: the next message tries again.
bool MappedMemory::tell(Peer& peer, OwnAllocations::Entry& allocation) {
  if (self_ == 0 && ::getrandom(&self_, sizeof self_, 0) != sizeof self_) return false;
  links_.prepare_answer(peer);
  const wire::MemoryTold what{
      .number = allocation.number,
      .reserved = 0,
      .address = reinterpret_cast<std::uint64_t>(allocation.memory.range.data()),
      .ticket = {.owner = self_, .number = ++tickets_},
  };
  if (const auto left = links_.job().box->leave(peer.id, what.ticket, allocation.memory.file.get()); !left) {
    ++not_left_;
    why_not_left_ = left.error();
    return false;
  }
  links_.send_control(peer, wire::CellKind::memory_told, &what, sizeof what);
  allocation.told[peer.slot] = true;
  return true;
}

void MappedMemory::missed(const ArrivedCell& cell) {
  OwnAllocations::Entry* const allocation = own_.find(cell.payload<wire::MemoryNumber>().number);
  // Of memory that has been freed meanwhile nothing more is said.
  if (allocation && !allocation->is_freed) allocation->told[cell.peer.slot] = false;
}

void MappedMemory::free(std::uint32_t number) noexcept {
  OwnAllocations::Entry& allocation = *own_.find(number);
  OwnAllocations::free(allocation);
  if (tell_all_of_end(allocation))
    OwnAllocations::remove(allocation);
  else
    polled_.add(*this);
}

bool MappedMemory::tell_all_of_end(OwnAllocations::Entry& allocation) noexcept try {
  const wire::MemoryNumber what{.number = allocation.number, .reserved = 0};
  for (std::size_t slot = 0; slot < allocation.told.size(); ++slot) {
    if (!allocation.told[slot]) continue;
    Peer& peer = links_.peer(links_.job().members[slot]);
    if (!peer.lost) links_.send_control(peer, wire::CellKind::memory_freed, &what, sizeof what);
    allocation.told[slot] = false;
  }
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

unsigned MappedMemory::poll() {
  bool done = true;
  own_.for_each([&](OwnAllocations::Entry& each) {
    if (!each.is_freed) return;
    if (tell_all_of_end(each))
      OwnAllocations::remove(each);
    else
      done = false;
  });
  if (done) polled_.remove(*this);
  return 0;
}

// The reader's side.

void MappedMemory::told(const ArrivedCell& cell) {
  const auto what = cell.payload<wire::MemoryTold>();
  if (what.number == 0 || what.ticket.number == 0)
    return links_.malformed(cell.peer, "memory without a number");
  mappings_.told(cell.peer.id, what, PeerMappings::Clock::now());
  look_for(cell.peer, what.number);
}

void MappedMemory::look_for(Peer& peer, std::uint32_t number) {
  const auto awaited = mappings_.awaited(peer.id, number);
  if (!awaited) return;
  const auto refuse = [&](std::string why) {
    mappings_.refuse(peer.id, number);
    heard_[peer.slot].why_not = std::move(why);
  };
  if (!links_.job().box) return refuse("this rank has no box to take its descriptor from");
  const UniqueFd file = links_.job().box->take_now(awaited->ticket);
  if (links_.settings().mapping == MappingSetting::off) return refuse("switched off by ISTHMUS_MAPPING=off");
  if (!file) {
    // Another process may have it in its hands. What does not come is told again when it is next wanted.
    if (PeerMappings::Clock::now() - awaited->since > launch::DescriptorBox::patience)
      mappings_.forget(peer.id, number);
    return;
  }
  if (auto why_not = mappings_.arrived(peer.id, number, file)) return refuse(std::move(*why_not));
  heard_[peer.slot].mapped = true;
}

void MappedMemory::freed(const ArrivedCell& cell) {
  mappings_.forget(cell.peer.id, cell.payload<wire::MemoryNumber>().number);
}

bool MappedMemory::reaches(Peer& peer, const wire::SendOffer& offer, std::uint64_t bytes) noexcept try {
  using State = PeerMappings::State;
  if (offer.allocation == 0 || offer.address == 0) return false;
  auto found = mappings_.find(peer.id, offer.allocation, offer.address, bytes);
  if (found.state == State::awaited) [[unlikely]] {
    look_for(peer, offer.allocation);
    found = mappings_.find(peer.id, offer.allocation, offer.address, bytes);
  }
  if (found.state == State::unknown) [[unlikely]] {
    const wire::MemoryNumber what{.number = offer.allocation, .reserved = 0};
    links_.send_control(peer, wire::CellKind::memory_missed, &what, sizeof what);
  }
  if (found.state != State::mapped) return false;
  if (!found.data) links_.malformed(peer, "an offer beyond the memory that it names");
  return found.data != nullptr;
} catch (const std::bad_alloc&) {
  return false;  // this message goes another way
}

Result<> MappedMemory::read(Peer& peer, const wire::SendOffer& offer, const Payload& to,
                            std::uint64_t bytes) {
  const auto found = mappings_.find(peer.id, offer.allocation, offer.address, bytes);
  if (!found.data) return fail(ErrorClass::buffer, "the peer's memory is mapped no more");
  fill(to, found.data, bytes);
  return {};
}

// Both.

void MappedMemory::forget(const Peer& peer) noexcept {
  mappings_.forget(peer.id);
}

void MappedMemory::close() noexcept {
  mappings_.clear();
}

std::optional<MemoryReport> MappedMemory::report(const Peer& peer) const {
  if (peer.slot >= heard_.size()) return std::nullopt;
  const Heard& heard = heard_[peer.slot];
  if (heard.mapped) return MemoryReport{.is_in_reach = true, .why_not = {}};
  if (heard.why_not.empty()) return std::nullopt;
  return MemoryReport{.is_in_reach = false, .why_not = heard.why_not};
}

std::string MappedMemory::why_not_allocated() const {
  std::string why;
  if (apart_ > 0)
    why = std::to_string(apart_) + (apart_ == 1 ? " allocation" : " allocations") +
          " cannot be mapped by other ranks: " + why_apart_;
  if (not_left_ > 0)
    why += (why.empty() ? "" : "; ") + std::to_string(not_left_) +
           " times the box of descriptors took none: " + std::make_error_code(why_not_left_).message();
  return why;
}

}  // namespace isthmus
