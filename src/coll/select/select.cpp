#include "coll/select/select.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "coll/area/team_area.hpp"

namespace isthmus::coll {
namespace {

enum class Needs : std::uint8_t {
  nothing,
  shared,
  own_cores,
  direct,
  power_of_two,
  commutative,
  hosts,
  even_hosts,
  commutative_hosts,
  sockets,
  even_sockets
};

constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();
constexpr int all = std::numeric_limits<int>::max();
constexpr std::uint64_t kib = 1024;

struct TableRow {
  Collective collective;
  Algorithm algorithm;
  Needs needs = Needs::nothing;
  int up_to_ranks = all;
  std::uint64_t up_to_bytes = any;
  std::uint64_t up_to_total = any;  ///< bytes x ranks
};

/// The first row of a collective that fits is taken; the last one always fits.
///
/// Where direct copies begin for two ranks with a core each, us, through shared memory / direct:
///   bcast 1 KiB 0.42/0.58, 4 KiB 1.15/0.67, 64 KiB 6.5/2.8, both sides copying 16 KiB 1.25, 32 KiB 1.44,
///   64 KiB 2.25 (one side: 1.02, 1.73, 2.81); allreduce 4 KiB 1.48/1.35, 16 KiB 4.6/2.2 (each rank
///   everything) or 3.0 (each one half); 64 KiB 5.5 either way; 128 KiB 9.4 or 8.3; 1 MiB 172 or 66; alltoall
///   4 KiB 1.24/1.18, 16 KiB 3.6/2.0, 64 KiB 8.0/4.6.
/// More ranks mostly share cores, and then the turns that they wait for decide: one for what goes through
/// slots, three for a direct copy (4 KiB on 8 ranks and 2 loaded cores, us: bcast 2.1 and 14, allreduce 13
/// and 240). Short blocks for many ranks cost an alltoall a system call each where they are not staged (1 KiB
/// for 256 ranks on 2 cores: 110 ms direct, 17 staged). Flat is quadratic in the ranks, so that above 16 the
/// tree of counters takes over.
///
/// Where many ranks have a core each (16, of a virtual machine on Sapphire Rapids; us; flat or direct /
/// staged): bcast, 4 ranks 64 KiB 20/12, 1 MiB 288/173; 16 ranks 64 KiB 86/14, 1 MiB 1880/213, because the
/// kernel lets readers of one buffer wait for each other. Allreduce, 4 ranks 16 KiB 12.6/14.9, 64 KiB 24/30,
/// 1 MiB 254/415; 8 ranks 16 KiB 26/12, 64 KiB 50/32, 256 KiB 110/121; 16 ranks 16 KiB 53/16, 64 KiB 108/44,
/// 256 KiB 177/208; 16 ranks on 32 cores 2 KiB 9.9/4.3, 4 KiB 17.5/5.3; 32 ranks (counted, above 16 KiB
/// direct) 1 KiB 6.9/10.6, 4 KiB 14.7/13.1, 16 KiB 47/29, 64 KiB 177/59.
///
/// Sockets are not measured: no machine with two was at hand. Where every member copies from every other
/// one's memory, each byte crosses from socket to socket as many times as there are members on the other
/// side; by sockets it crosses once, for two more turns of waiting. So that pays where copying outweighs
/// turns. Short data lie in lines that all read at once, and an alltoall has nothing that could cross less
/// often.
///
/// Hosts were four containers of two ranks on two cores, joined by virtual Ethernet and TCP, so that the work
/// of all hosts adds up, us, as if there were no hosts / by leaders / in slices: bcast 64 KiB 239/142, 256
/// KiB 735/345, 1 MiB 2054/1323; allreduce 16 KiB 158/79/167, 64 KiB 342/371/342, 256 KiB 966/1024/774, 1 MiB
/// 2935/2795/1708; allgather 64 KiB 1326/940/514, 256 KiB 2404/3513/1872, 1 MiB 11708/12880/16593; alltoall
/// 8 B 110/42, 1 KiB 120/70, 16 KiB 267/1543; reduce 16 KiB 65/36, 1 MiB 2073/4343. Leaders gain nothing for
/// gather and scatter, whose trees send few messages as it is.
constexpr std::array table{
    // clang-format off
    TableRow{Collective::barrier, Algorithm::flat, Needs::shared, flat_ranks},
    TableRow{Collective::barrier, Algorithm::counted, Needs::shared},
    TableRow{Collective::barrier, Algorithm::leaders, Needs::hosts},
    TableRow{Collective::barrier, Algorithm::dissemination},

    TableRow{Collective::bcast, Algorithm::flat, Needs::shared, 2, 2 * kib},
    TableRow{Collective::bcast, Algorithm::direct_both, Needs::direct, 2},
    TableRow{Collective::bcast, Algorithm::flat, Needs::shared, all, slot_bytes},
    TableRow{Collective::bcast, Algorithm::staged, Needs::own_cores, all, 64 * kib},
    TableRow{Collective::bcast, Algorithm::direct, Needs::direct, all, 64 * kib},
    TableRow{Collective::bcast, Algorithm::segments, Needs::sockets},
    TableRow{Collective::bcast, Algorithm::staged, Needs::own_cores},
    TableRow{Collective::bcast, Algorithm::direct, Needs::direct},
    TableRow{Collective::bcast, Algorithm::leaders, Needs::hosts, all, 64 * kib},
    TableRow{Collective::bcast, Algorithm::segments, Needs::hosts},
    TableRow{Collective::bcast, Algorithm::binomial, Needs::nothing, 4},
    TableRow{Collective::bcast, Algorithm::binomial, Needs::nothing, all, 32 * kib},
    TableRow{Collective::bcast, Algorithm::scatter_allgather},

    TableRow{Collective::gather, Algorithm::flat, Needs::shared, all, 2 * kib},
    TableRow{Collective::gather, Algorithm::binomial, Needs::nothing, all, 2 * kib},
    TableRow{Collective::gather, Algorithm::linear},

    TableRow{Collective::scatter, Algorithm::flat, Needs::shared, all, any, slot_bytes},
    TableRow{Collective::scatter, Algorithm::binomial, Needs::nothing, all, 2 * kib},
    TableRow{Collective::scatter, Algorithm::linear},

    TableRow{Collective::allgather, Algorithm::flat, Needs::shared, 2, 2 * kib},
    TableRow{Collective::allgather, Algorithm::direct, Needs::direct, 2},
    TableRow{Collective::allgather, Algorithm::flat, Needs::shared, all, slot_bytes, 256 * kib},
    TableRow{Collective::allgather, Algorithm::slices, Needs::even_sockets},
    TableRow{Collective::allgather, Algorithm::direct, Needs::direct},
    TableRow{Collective::allgather, Algorithm::leaders, Needs::hosts, all, any, 64 * kib},
    TableRow{Collective::allgather, Algorithm::slices, Needs::even_hosts, all, 512 * kib},
    TableRow{Collective::allgather, Algorithm::along, Needs::hosts},
    TableRow{Collective::allgather, Algorithm::doubling, Needs::power_of_two, all, any, 64 * kib},
    TableRow{Collective::allgather, Algorithm::bruck, Needs::nothing, all, any, 64 * kib},
    TableRow{Collective::allgather, Algorithm::ring},

    TableRow{Collective::alltoall, Algorithm::flat, Needs::shared, 2, 2 * kib},
    TableRow{Collective::alltoall, Algorithm::direct, Needs::direct, 2},
    TableRow{Collective::alltoall, Algorithm::flat, Needs::shared, all, any, slot_bytes},
    TableRow{Collective::alltoall, Algorithm::staged, Needs::shared, all, 4 * kib, 256 * kib},
    TableRow{Collective::alltoall, Algorithm::direct, Needs::direct},
    TableRow{Collective::alltoall, Algorithm::leaders, Needs::hosts, all, 1 * kib},
    TableRow{Collective::alltoall, Algorithm::pairwise, Needs::nothing, 8},
    TableRow{Collective::alltoall, Algorithm::bruck, Needs::nothing, all, 2 * kib},
    TableRow{Collective::alltoall, Algorithm::pairwise},

    TableRow{Collective::reduce, Algorithm::flat, Needs::shared, 4, slot_bytes},
    TableRow{Collective::reduce, Algorithm::direct, Needs::direct, 4},
    TableRow{Collective::reduce, Algorithm::flat, Needs::shared, flat_ranks, slot_bytes, 8 * kib},
    TableRow{Collective::reduce, Algorithm::counted, Needs::shared, all, slot_bytes, 64 * kib},
    TableRow{Collective::reduce, Algorithm::staged, Needs::own_cores, all, 128 * kib},
    TableRow{Collective::reduce, Algorithm::flat, Needs::shared, flat_ranks, slot_bytes},
    TableRow{Collective::reduce, Algorithm::counted, Needs::shared, all, slot_bytes},
    TableRow{Collective::reduce, Algorithm::direct, Needs::direct, all, 256 * kib},
    TableRow{Collective::reduce, Algorithm::leaders, Needs::sockets},
    TableRow{Collective::reduce, Algorithm::direct, Needs::direct},
    TableRow{Collective::reduce, Algorithm::staged, Needs::own_cores},
    TableRow{Collective::reduce, Algorithm::leaders, Needs::hosts, all, 64 * kib},
    TableRow{Collective::reduce, Algorithm::along, Needs::commutative_hosts},
    TableRow{Collective::reduce, Algorithm::leaders, Needs::hosts},
    TableRow{Collective::reduce, Algorithm::binomial, Needs::nothing, all, 64 * kib},
    TableRow{Collective::reduce, Algorithm::ring, Needs::commutative},
    TableRow{Collective::reduce, Algorithm::binomial},

    TableRow{Collective::allreduce, Algorithm::flat, Needs::shared, 2, 2 * kib},
    TableRow{Collective::allreduce, Algorithm::direct_all, Needs::direct, 2, 64 * kib},
    TableRow{Collective::allreduce, Algorithm::direct, Needs::direct, 2},
    TableRow{Collective::allreduce, Algorithm::flat, Needs::shared, 4, slot_bytes},
    TableRow{Collective::allreduce, Algorithm::direct, Needs::direct, 4},
    TableRow{Collective::allreduce, Algorithm::flat, Needs::shared, flat_ranks, slot_bytes, 8 * kib},
    TableRow{Collective::allreduce, Algorithm::counted, Needs::shared, all, slot_bytes, 64 * kib},
    TableRow{Collective::allreduce, Algorithm::staged, Needs::own_cores, all, 128 * kib},
    TableRow{Collective::allreduce, Algorithm::flat, Needs::shared, flat_ranks, slot_bytes},
    TableRow{Collective::allreduce, Algorithm::counted, Needs::shared, all, slot_bytes},
    TableRow{Collective::allreduce, Algorithm::direct, Needs::direct, all, 64 * kib},
    TableRow{Collective::allreduce, Algorithm::slices, Needs::even_sockets},
    TableRow{Collective::allreduce, Algorithm::direct, Needs::direct},
    TableRow{Collective::allreduce, Algorithm::staged, Needs::own_cores},
    TableRow{Collective::allreduce, Algorithm::leaders, Needs::hosts, all, 64 * kib},
    TableRow{Collective::allreduce, Algorithm::slices, Needs::even_hosts},
    TableRow{Collective::allreduce, Algorithm::leaders, Needs::hosts},
    TableRow{Collective::allreduce, Algorithm::doubling, Needs::nothing, all, 16 * kib},
    TableRow{Collective::allreduce, Algorithm::halving, Needs::commutative, all, 256 * kib},
    TableRow{Collective::allreduce, Algorithm::ring, Needs::commutative},
    TableRow{Collective::allreduce, Algorithm::doubling},

    TableRow{Collective::reduce_scatter, Algorithm::flat, Needs::shared, flat_ranks, slot_bytes},
    TableRow{Collective::reduce_scatter, Algorithm::direct, Needs::direct},
    TableRow{Collective::reduce_scatter, Algorithm::by_root, Needs::nothing, all, 16 * kib},
    TableRow{Collective::reduce_scatter, Algorithm::pairwise, Needs::commutative},
    TableRow{Collective::reduce_scatter, Algorithm::by_root},

    TableRow{Collective::scan, Algorithm::flat, Needs::shared, flat_ranks, slot_bytes},
    TableRow{Collective::scan, Algorithm::doubling},
    // clang-format on
};

static_assert(std::ranges::is_sorted(table, {}, &TableRow::collective));
static_assert(std::ranges::all_of(table, [](const TableRow& row) {
  const bool in_slot = row.algorithm == Algorithm::flat || row.algorithm == Algorithm::counted;
  const std::uint64_t all_blocks =
      row.up_to_ranks == 2 && row.up_to_bytes != any ? 2 * row.up_to_bytes : row.up_to_total;
  const bool many_blocks = row.collective == Collective::alltoall || row.collective == Collective::scatter;
  return !in_slot || row.collective == Collective::barrier ||
         (many_blocks ? all_blocks : row.up_to_bytes) <= slot_bytes;
}));

constexpr auto first_rows = [] {
  std::array<std::size_t, collective_count + 1> first{};
  for (int c = 0; c <= collective_count; ++c)
    first[c] = static_cast<std::size_t>(std::ranges::count_if(
        table, [&](const TableRow& row) { return static_cast<int>(row.collective) < c; }));
  return first;
}();

/// Whether some row of a collective needs direct copies: a barrier has none, and is short.
constexpr auto has_direct = [] {
  std::array<bool, collective_count> has{};
  for (const TableRow& row : table)
    has[static_cast<std::size_t>(row.collective)] |= row.needs == Needs::direct;
  return has;
}();

std::span<const TableRow> rows_of(Collective collective) noexcept {
  const auto c = static_cast<std::size_t>(collective);
  return std::span(table).subspan(first_rows[c], first_rows[c + 1] - first_rows[c]);
}

[[gnu::always_inline]] inline bool fits(const TableRow& row, const Question& question) noexcept {
  if (question.ranks > row.up_to_ranks || question.bytes > row.up_to_bytes) return false;
  return row.up_to_total == any || question.bytes <= row.up_to_total / static_cast<unsigned>(question.ranks);
}

[[gnu::always_inline]] inline bool satisfied(Needs needs, const Question& question) noexcept {
  switch (needs) {
    case Needs::nothing:
      return true;
    case Needs::shared:
      return question.shared;
    case Needs::own_cores:
      return question.shared && question.own_cores;
    case Needs::direct:
      return question.direct;
    case Needs::power_of_two:
      return (question.ranks & (question.ranks - 1)) == 0;
    case Needs::commutative:
      return question.commutative;
    case Needs::hosts:
      return question.domains == Domains::hosts;
    case Needs::even_hosts:
      return question.domains == Domains::hosts && question.even;
    case Needs::commutative_hosts:
      return question.domains == Domains::hosts && question.commutative;
    case Needs::sockets:
      return question.domains == Domains::sockets;
    case Needs::even_sockets:
      return question.domains == Domains::sockets && question.even;
  }
  return false;
}

constexpr std::array<std::string_view, named_collective_count> collective_names{
    "barrier",   "bcast",          "gather", "scatter", "allgather", "alltoall",  "reduce",
    "allreduce", "reduce_scatter", "scan",   "gatherv", "scatterv",  "alltoallv", "alltoallw"};
constexpr std::array<std::string_view, static_cast<std::size_t>(Algorithm::along) + 1> algorithm_names{
    "flat",     "staged",   "counted",           "direct",   "direct_both", "direct_all", "dissemination",
    "linear",   "binomial", "scatter_allgather", "doubling", "halving",     "ring",       "bruck",
    "pairwise", "by_root",  "leaders",           "segments", "slices",      "along"};
constexpr std::array<std::string_view, 11> need_names{"",
                                                      "shared memory",
                                                      "shared memory and cores of their own",
                                                      "direct copies",
                                                      "ranks a power of two",
                                                      "commutative",
                                                      "several hosts",
                                                      "even hosts",
                                                      "several hosts and commutative",
                                                      "several sockets",
                                                      "even sockets"};

}  // namespace

Algorithm select(const Question& question) noexcept {
  const std::span<const TableRow> rows = rows_of(question.collective);
  for (const TableRow& row : rows)
    if (fits(row, question) && satisfied(row.needs, question)) return row.algorithm;
  return rows.back().algorithm;
}

bool asks_for_direct(const Question& question) noexcept {
  if (!has_direct[static_cast<std::size_t>(question.collective)]) return false;
  for (const TableRow& row : rows_of(question.collective)) {
    if (!fits(row, question)) continue;
    if (row.needs == Needs::direct) return true;
    if (satisfied(row.needs, question)) return false;
  }
  return false;
}

std::string_view name(Collective collective) noexcept {
  return collective_names[static_cast<std::size_t>(collective)];
}

std::string_view name(Algorithm algorithm) noexcept {
  return algorithm_names[static_cast<std::size_t>(algorithm)];
}

std::string describe_selection() {
  const auto limit = [](std::string_view what, std::uint64_t value, std::uint64_t none) {
    return value == none ? std::string() : ", " + std::string(what) + " <= " + std::to_string(value);
  };
  std::string text;
  for (const TableRow& row : table) {
    std::string conditions;
    if (row.needs != Needs::nothing)
      conditions += ", " + std::string(need_names[static_cast<std::size_t>(row.needs)]);
    conditions += limit("ranks", static_cast<std::uint64_t>(row.up_to_ranks), all);
    conditions += limit("bytes", row.up_to_bytes, any);
    conditions += limit("bytes x ranks", row.up_to_total, any);
    text += std::string(name(row.collective)) + ": " + std::string(name(row.algorithm)) +
            (conditions.empty() ? "" : " if " + conditions.substr(2)) + "\n";
  }
  return text;
}

}  // namespace isthmus::coll
