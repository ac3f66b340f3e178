// The allreduce across hosts.
#include <algorithm>
#include <array>
#include <vector>

#include "coll/call/even_cut.hpp"
#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "coll/gpu/hosts/across_hosts.hpp"
#include "coll/gpu/hosts/carrier_shares.hpp"
#include "coll/gpu/hosts/collectives.hpp"
#include "coll/gpu/hosts/conveyor.hpp"
#include "coll/gpu/hosts/kernel.hpp"

namespace isthmus::coll::gpu_hosts {
namespace {

/// A slot has room for a segment, and behind it for what each other host sends of one piece of it.
std::uint64_t reduction_slot(std::uint64_t segment, int hosts) {
  return 2 * segment + 2 * static_cast<std::uint64_t>(gpu_grain) * static_cast<unsigned>(hosts);
}

/// A carrier's share of an allreduce. Each segment is cut into a piece for each host, which gets the others'
/// operands of it, has its GPU combine them with its own, in order of hosts, and hands on the result. The
/// kernel reads what has come where it lies, in pinned memory.
class CarryAllreduce {
 public:
  /// `operand` may be `result`.
  CarryAllreduce(const AcrossHosts& all, const std::byte* operand, std::byte* result, const Reduction& what)
      : all_(all),
        operand_(operand),
        result_(result),
        what_(what),
        size_(what.type->size()),
        each_(elements_of_segment(all, *what.type)),
        swaps_(all.between(Tag::reduce_scatter)),
        shares_(all.between(Tag::allgather)) {}

  Result<> run() {
    const std::array<Stage, 5> stages{
        [&](Segment& segment) { fetch(segment); }, [&](Segment& segment) { swap(segment); },
        [&](Segment& segment) { combine(segment); }, [&](Segment& segment) { hand_on(segment); },
        [&](Segment& segment) { land(segment); }};
    return convey(all_, static_cast<std::uint64_t>((what_.count + each_ - 1) / each_), stages);
  }

 private:
  /// Elements, from the beginning of the share.
  struct Part {
    std::int64_t begin, count;
  };
  [[nodiscard]] int hosts() const { return all_.hosts().count(); }
  [[nodiscard]] int own() const { return all_.hosts().own_domain(); }

  [[nodiscard]] std::int64_t first(const Segment& segment) const {
    return static_cast<std::int64_t>(segment.index()) * each_;
  }
  [[nodiscard]] EvenCut pieces(const Segment& segment) const {
    return {std::min(each_, what_.count - first(segment)), hosts(), grain_of(*what_.type)};
  }
  [[nodiscard]] Part piece(const Segment& segment, int host) const {
    const EvenCut cut = pieces(segment);
    return {first(segment) + cut.begin(host), cut.size(host)};
  }
  [[nodiscard]] std::uint64_t bytes(const Part& part) const {
    return static_cast<std::uint64_t>(part.count * size_);
  }
  /// Where a part of the segment is in the slot.
  [[nodiscard]] Payload in_slot(const Segment& segment, const Part& part) const {
    return Payload::of(segment.memory() + (part.begin - first(segment)) * size_, bytes(part));
  }
  /// Where the operands of this host's piece come in.
  [[nodiscard]] Payload incoming(const Segment& segment, int host) const {
    const Part mine = piece(segment, own());
    const int place = host < own() ? host : host - 1;
    const std::uint64_t room = (bytes(mine) + gpu_grain - 1) / gpu_grain * gpu_grain;
    return Payload::of(segment.memory() + all_.segment() + room * static_cast<unsigned>(place), bytes(mine));
  }
  /// The segment without this host's piece: before and behind it.
  [[nodiscard]] std::array<Part, 2> others(const Segment& segment) const {
    const Part mine = piece(segment, own());
    const std::int64_t end = std::min(first(segment) + each_, what_.count);
    return {{{first(segment), mine.begin - first(segment)},
             {mine.begin + mine.count, end - mine.begin - mine.count}}};
  }

  void fetch(Segment& segment) {
    for (const Part& part : others(segment))
      if (part.count > 0)
        segment.add(all_.to_host(in_slot(segment, part).data, operand_ + part.begin * size_, bytes(part)));
  }
  void swap(Segment& segment) {
    Batch& batch = segment.messages(swaps_);
    for (int k = 1; k < hosts(); ++k) {
      const int to = (own() + k) % hosts();
      const int from = (own() - k + hosts()) % hosts();
      if (piece(segment, own()).count > 0) batch.receive(from, incoming(segment, from));
      if (const Part theirs = piece(segment, to); theirs.count > 0) batch.send(to, in_slot(segment, theirs));
    }
  }
  void combine(Segment& segment) {
    const Part mine = piece(segment, own());
    if (mine.count == 0) return;
    std::vector<const std::byte*> operands;
    operands.reserve(static_cast<std::size_t>(hosts()));
    for (int host = 0; host < hosts(); ++host)
      operands.push_back(host == own() ? operand_ + mine.begin * size_ : incoming(segment, host).data);
    segment.add(combine_by_kernel(all_, {mine.count, what_.type, what_.op}, operands,
                                  result_ + mine.begin * size_, in_slot(segment, mine).data));
  }
  void hand_on(Segment& segment) {
    Batch& batch = segment.messages(shares_);
    for (int k = 1; k < hosts(); ++k) {
      const int to = (own() + k) % hosts();
      const int from = (own() - k + hosts()) % hosts();
      if (const Part theirs = piece(segment, from); theirs.count > 0)
        batch.receive(from, in_slot(segment, theirs));
      if (const Part mine = piece(segment, own()); mine.count > 0) batch.send(to, in_slot(segment, mine));
    }
  }
  void land(Segment& segment) {
    for (const Part& part : others(segment))
      if (part.count > 0)
        segment.add(all_.from_host(result_ + part.begin * size_, in_slot(segment, part).data, bytes(part)));
  }

  const AcrossHosts& all_;
  const std::byte* const operand_;
  std::byte* const result_;
  const Reduction& what_;
  const std::int64_t size_;
  const std::int64_t each_;  ///< elements of a segment
  const Ranks swaps_, shares_;
};

Result<> run_allreduce(const AcrossHosts& all, const void* operand, void* receive, const Reduction& what) {
  Communicator& local = all.local();
  const CarrierShares shares(all, what.count, grain_of(*what.type));
  const auto& counts = shares.counts;
  const auto& begins = shares.begins;
  const auto me = static_cast<std::size_t>(local.rank());
  const auto at = [&](const void* buffer) {
    return static_cast<std::byte*>(element(buffer, begins[me], *what.type));
  };
  FirstError error;
  // In the place where it belongs the share may overwrite the own operand: nobody else wants that part of it.
  if (local.size() > 1) error.add(coll::reduce_scatter(operand, at(receive), counts.data(), what, local));
  if (counts[me] > 0)
    error.add(CarryAllreduce(all, at(local.size() > 1 ? receive : operand), at(receive),
                             {counts[me], what.type, what.op})
                  .run());
  if (local.size() > 1)
    error.add(coll::allgatherv({in_place, 0, what.type}, {receive, counts.data(), begins.data(), what.type},
                               local));
  return error.take();
}

}  // namespace

Tried allreduce(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  const void* const operand = send == in_place ? receive : send;
  const Payload result = elements(receive, what);
  return across_hosts(
      comm, result.bytes,
      [&] {
        return HostsCall{.send = elements(operand, what),
                         .receive = result,
                         .reduces = &what,
                         .slot_bytes = reduction_slot};
      },
      [&](const AcrossHosts& all) { return run_allreduce(all, operand, receive, what); });
}

}  // namespace isthmus::coll::gpu_hosts
