#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "coll/call/coll.hpp"
#include "coll/context/footing.hpp"
#include "coll/context/hierarchy.hpp"
#include "coll/flow/ranks.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "p2p/protocol/gpu/messages.hpp"

/// What every collective with data in the memory of GPUs on several hosts begins and ends with.
namespace isthmus::coll {

/// Such a collective as one member calls it.
struct HostsCall {
  /// Alike on all members: how much data there is. From `least_across_hosts` on they ask each other.
  std::uint64_t bytes = 0;
  Payload send, receive;  ///< no bytes: there is none
  /// The operation has to be computed by a kernel.
  const Reduction* reduces = nullptr;
  std::uint64_t temporary = 0;  ///< bytes of the GPU's memory that this member needs besides
  bool all_carry = false;       ///< every member brings data between hosts
  bool barred = false;          ///< this member knows that it cannot
  /// Pinned memory that a segment of so many bytes takes, where there are so many hosts.
  std::uint64_t (*slot_bytes)(std::uint64_t segment, int hosts) = nullptr;
};

/// Shorter data goes by stand-ins: one copy to the host, the host's collective and one copy back, where this
/// takes two questions, two collectives between GPUs and several copies more. Reckoned: there were no two
/// hosts with GPUs. On the emulated driver (2 hosts of 2 ranks, 2 busy cores) stand-ins were ahead up to 1
/// MiB; 4 MiB took 8.8 ms instead of 22 for an allreduce, 3.4 either way for a bcast, 16 MiB 34 to 55 instead
/// of 150 and 11 instead of 47.
inline constexpr std::uint64_t least_across_hosts = 1024 * 1024;

/// A collective that all members go through together: on each host between its GPUs, and between the hosts
/// what has to travel, in segments, by way of pinned memory. As many members of each host as the smallest of
/// them has carry data between hosts, each its share: the carriers, which are the first of their hosts.
class AcrossHosts {
 public:
  /// Segments under way at a time: one is copied from the GPU, one travels, one is copied back, and one
  /// takes up what these differ.
  static constexpr std::size_t depth = 4;

  [[nodiscard]] Communicator& comm() const noexcept { return *comm_; }
  [[nodiscard]] const Hierarchy& hosts() const noexcept { return *hosts_; }
  [[nodiscard]] Communicator& local() const noexcept { return hosts_->local(); }
  [[nodiscard]] GpuMessages& gpu() const noexcept { return *gpu_; }
  [[nodiscard]] cuda::Device device() const noexcept { return near_.device; }
  /// Bytes of a segment, alike on all members.
  [[nodiscard]] std::uint64_t segment() const noexcept { return segment_; }
  [[nodiscard]] std::span<const PinnedBuffer> slots() const noexcept { return slots_; }
  /// Memory of the GPU, as much as the call has asked for.
  [[nodiscard]] std::byte* temporary() const noexcept { return temporary_.data(); }

  [[nodiscard]] int carriers() const noexcept { return carriers_; }
  [[nodiscard]] bool carries() const noexcept { return local().rank() < carriers_; }
  /// The carriers of this one's share, by host. Only where this member carries one.
  [[nodiscard]] Ranks between(Tag tag) const {
    return Ranks::among(*comm_, tag, slice_, hosts_->own_domain());
  }

  /// From or to the GPU's memory, or within it; waits.
  [[nodiscard]] Result<> copy(const Payload& from, const Payload& to) const {
    return gpu_->copies().copy(near_, from, to);
  }
  [[nodiscard]] Result<PendingCopy> to_host(std::byte* to, const std::byte* from, std::uint64_t bytes) const {
    return gpu_->copies().stage(near_, GpuCopies::Direction::to_host, {to, from, bytes});
  }
  [[nodiscard]] Result<PendingCopy> from_host(std::byte* to, const std::byte* from,
                                              std::uint64_t bytes) const {
    return gpu_->copies().stage(near_, GpuCopies::Direction::from_host, {to, from, bytes});
  }

 private:
  friend class HostsAgreement;
  AcrossHosts() = default;

  Communicator* comm_ = nullptr;
  const Hierarchy* hosts_ = nullptr;
  GpuMessages* gpu_ = nullptr;
  Buffer near_;  ///< some buffer of the call
  std::uint64_t segment_ = 0;
  std::vector<PinnedBuffer> slots_;
  DeviceBuffer temporary_;
  int carriers_ = 0;
  std::vector<int> slice_;
};

/// Whether all members want a call to go across hosts between GPUs. Sound whatever a member passes: each says
/// what it can, all hear the least of it, by a collective of the hosts; and all know alike in which calls
/// they ask (`Patience`), so that a program whose data is on the hosts pays for 8 bytes more in each 67th
/// long collective across hosts.
class HostsAgreement {
 public:
  HostsAgreement(Communicator& comm, Footing& footing) : comm_(comm), footing_(footing) {}

  /// Nothing: stand-ins serve. Collective.
  Result<std::optional<AcrossHosts>> ask(const HostsCall& call);
  /// After the collective, `done` by this member: whether all members have. `before`: it. Collective.
  Result<> end(const AcrossHosts& all, Result<> done, const GpuMessages::Collectives& before);

 private:
  /// What the member has that has least. Collective.
  Result<std::uint64_t> least_of(std::uint64_t mine);
  /// What this member can; nothing where it cannot, or has no memory to pin.
  std::optional<AcrossHosts> prepare(const HostsCall& call);
  [[nodiscard]] bool locate(GpuMessages& gpu, const HostsCall& call, Buffer& near);

  Communicator& comm_;
  Footing& footing_;
};

/// Runs `body(all)` where all members know that `make_call()` can go across hosts between GPUs.
template <class MakeCall, class Body>
std::optional<Result<>> across_hosts(Communicator& comm, std::uint64_t bytes, MakeCall make_call, Body body) {
  using Tried = std::optional<Result<>>;
  if (bytes < least_across_hosts || comm.is_inter() || comm.size() == 1) [[likely]]
    return std::nullopt;
  auto footing = Footing::of(comm);
  if (!footing) [[unlikely]]
    return Tried(std::in_place, std::unexpect, std::move(footing).error());
  if (!(*footing)->hosts() || !(*footing)->patience().asks()) return std::nullopt;
  HostsAgreement agreement(comm, **footing);
  HostsCall call = make_call();
  call.bytes = bytes;
  auto all = agreement.ask(call);
  if (!all) return Tried(std::in_place, std::unexpect, std::move(all).error());
  if (!*all) return std::nullopt;
  const GpuMessages::Collectives before = (*all)->gpu().collectives;
  return agreement.end(**all, body(**all), before);
}

/// The first of several errors; whatever fails at one member, it goes on to do what others wait for.
class FirstError {
 public:
  void add(Result<> result) {
    if (first_) first_ = std::move(result);
  }
  [[nodiscard]] Result<> take() { return std::move(first_); }

 private:
  Result<> first_;
};

}  // namespace isthmus::coll
