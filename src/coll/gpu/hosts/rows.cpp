// The reductions across hosts whose results differ from host to host: to one root, and scattered.
#include <algorithm>
#include <array>
#include <vector>

#include "coll/call/local.hpp"
#include "coll/call/operands.hpp"
#include "coll/gpu/hosts/across_hosts.hpp"
#include "coll/gpu/hosts/carrier_shares.hpp"
#include "coll/gpu/hosts/collectives.hpp"
#include "coll/gpu/hosts/conveyor.hpp"
#include "coll/gpu/hosts/kernel.hpp"

namespace isthmus::coll::gpu_hosts {
namespace {

/// A slot has room for what goes to each host, and for what comes from each.
std::uint64_t rows_slot(std::uint64_t segment, int hosts) {
  return 2 * segment * static_cast<unsigned>(hosts);
}

/// What a carrier's host has reduced for each host, a row of equal length for each: it sends those of the
/// others, and has its GPU combine all hosts' of its own, in order of hosts.
class CarryRows {
 public:
  /// `rows`: by host; null where that host wants none. `result`: of the own row.
  CarryRows(const AcrossHosts& all, std::vector<const std::byte*> rows, std::byte* result,
            const Reduction& what)
      : all_(all),
        rows_(std::move(rows)),
        result_(result),
        what_(what),
        each_(elements_of_segment(all, *what.type)),
        ranks_(all.between(Tag::reduce)) {}

  Result<> run() {
    const std::array<Stage, 3> stages{[&](Segment& segment) { fetch(segment); },
                                      [&](Segment& segment) { swap(segment); },
                                      [&](Segment& segment) { combine(segment); }};
    return convey(all_, static_cast<std::uint64_t>((what_.count + each_ - 1) / each_), stages);
  }

 private:
  [[nodiscard]] int hosts() const { return all_.hosts().count(); }
  [[nodiscard]] int own() const { return all_.hosts().own_domain(); }
  [[nodiscard]] bool is_wanted(int host) const { return rows_[static_cast<std::size_t>(host)] != nullptr; }

  [[nodiscard]] std::int64_t count(const Segment& segment) const {
    return std::min(each_, what_.count - static_cast<std::int64_t>(segment.index()) * each_);
  }
  /// Of the segment, in a row.
  [[nodiscard]] std::uint64_t begin(const Segment& segment) const {
    return segment.index() * static_cast<std::uint64_t>(each_ * what_.type->size());
  }
  /// Places in the slot: first those of what goes to each host, then of what comes from each.
  [[nodiscard]] Payload place(const Segment& segment, int index) const {
    return Payload::of(segment.memory() + all_.segment() * static_cast<unsigned>(index),
                       static_cast<std::uint64_t>(count(segment) * what_.type->size()));
  }

  void fetch(Segment& segment) {
    for (int host = 0; host < hosts(); ++host) {
      if (host == own() || !is_wanted(host)) continue;
      const Payload to = place(segment, host);
      segment.add(all_.to_host(to.data, rows_[static_cast<std::size_t>(host)] + begin(segment), to.bytes));
    }
  }
  void swap(Segment& segment) {
    Batch& batch = segment.messages(ranks_);
    for (int k = 1; k < hosts(); ++k) {
      const int to = (own() + k) % hosts();
      const int from = (own() - k + hosts()) % hosts();
      if (is_wanted(own())) batch.receive(from, place(segment, hosts() + from));
      if (is_wanted(to)) batch.send(to, place(segment, to));
    }
  }
  void combine(Segment& segment) {
    if (!is_wanted(own())) return;
    std::vector<const std::byte*> operands;
    operands.reserve(static_cast<std::size_t>(hosts()));
    for (int host = 0; host < hosts(); ++host)
      operands.push_back(host == own() ? rows_[static_cast<std::size_t>(host)] + begin(segment)
                                       : place(segment, hosts() + host).data);
    segment.add(combine_by_kernel(all_, {count(segment), what_.type, what_.op}, operands,
                                  result_ + begin(segment), nullptr));
  }

  const AcrossHosts& all_;
  const std::vector<const std::byte*> rows_;
  std::byte* const result_;
  const Reduction& what_;
  const std::int64_t each_;  ///< elements of a segment
  const Ranks ranks_;
};

// --- to one root

/// The root's own share goes to its place, those of others to memory of their GPUs that is not the program's.
Result<> run_reduce(const AcrossHosts& all, const void* operand, void* receive, const Reduction& what,
                    int root) {
  Communicator& local = all.local();
  const CarrierShares shares(all, what.count, grain_of(*what.type));
  const auto& counts = shares.counts;
  const auto& begins = shares.begins;
  const auto me = static_cast<std::size_t>(local.rank());
  const auto at = [&](const void* buffer) {
    return static_cast<std::byte*>(element(buffer, begins[me], *what.type));
  };
  const bool at_root = all.comm().rank() == root;
  std::byte* const share = at_root ? at(receive) : all.temporary();
  FirstError error;
  // In the place where it belongs the share may overwrite the own operand: nobody else wants that part of it.
  if (local.size() > 1) error.add(coll::reduce_scatter(operand, share, counts.data(), what, local));
  const int top = all.hosts().domain_of(root);
  if (counts[me] > 0) {
    std::vector<const std::byte*> rows(static_cast<std::size_t>(all.hosts().count()));
    rows[static_cast<std::size_t>(top)] = local.size() > 1 ? share : at(operand);
    error.add(CarryRows(all, std::move(rows), share, {counts[me], what.type, what.op}).run());
  }
  if (all.hosts().own_domain() != top || local.size() == 1) return error.take();
  error.add(coll::gatherv({at_root ? in_place : share, counts[me], what.type},
                          {receive, counts.data(), begins.data(), what.type}, all.hosts().index_of(root),
                          local));
  return error.take();
}

// --- scattered

/// Among hosts of equal size whose ranks follow one another: a host's blocks are a row of the operand.
Result<> run_reduce_scatter(const AcrossHosts& all, const void* operand, void* receive,
                            const Reduction& what) {
  Communicator& local = all.local();
  const std::int64_t size = what.type->size();
  FirstError error;
  std::vector<const std::byte*> rows;
  for (int host = 0; host < all.hosts().count(); ++host) {
    const auto* const row =
        static_cast<const std::byte*>(operand) + size * what.count * all.hosts().begin(host);
    if (local.size() == 1) {
      rows.push_back(row);
      continue;
    }
    std::byte* const reduced = all.temporary() + size * what.count * host;
    error.add(coll::reduce_scatter_block(row, reduced, what, local));
    rows.push_back(reduced);
  }
  error.add(CarryRows(all, std::move(rows), static_cast<std::byte*>(receive), what).run());
  return error.take();
}

}  // namespace

Tried reduce(const void* send, void* receive, const Reduction& what, int root, Communicator& comm) {
  const void* const operand = send == in_place ? receive : send;
  const Payload data = elements(operand, what);
  return across_hosts(
      comm, data.bytes,
      [&] {
        const bool at_root = comm.rank() == root;
        return HostsCall{.send = data,
                         .receive = at_root ? elements(receive, what) : Payload(),
                         .reduces = &what,
                         .temporary = at_root ? 0 : data.bytes,
                         .slot_bytes = rows_slot};
      },
      [&](const AcrossHosts& all) { return run_reduce(all, operand, receive, what, root); });
}

Tried reduce_scatter_block(const void* send, void* receive, const Reduction& what, Communicator& comm) {
  const void* const operand = send == in_place ? receive : send;
  const Reduction whole{what.count * comm.size(), what.type, what.op};
  const Payload data = elements(operand, whole);
  return across_hosts(
      comm, data.bytes,
      [&] {
        const auto footing = Footing::of(comm);
        const Hierarchy* const hosts = footing ? (*footing)->hosts() : nullptr;
        const auto rows = static_cast<unsigned>(hosts ? hosts->count() : 0);
        return HostsCall{.send = data,
                         .receive = elements(receive, what),
                         .reduces = &what,
                         .temporary = elements(receive, what).bytes * rows,
                         .barred = !hosts || !hosts->is_even() || !hosts->in_order(),
                         .slot_bytes = rows_slot};
      },
      [&](const AcrossHosts& all) { return run_reduce_scatter(all, operand, receive, what); });
}

}  // namespace isthmus::coll::gpu_hosts
