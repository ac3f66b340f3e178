#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "stuck/rank_state.hpp"

namespace isthmus::mpiexec::stuck {

/// Who waits for whom. Ranks are named by their place in the list that the graph was made of.
class WaitGraph {
 public:
  /// The list must outlive the graph.
  explicit WaitGraph(const std::vector<RankState>& ranks);

  /// One of these has to act before the rank can go on.
  using Clause = std::vector<std::size_t>;
  /// All of these have to be met.
  [[nodiscard]] const std::vector<Clause>& clauses(std::size_t rank) const { return clauses_[rank]; }
  /// Whether nothing that goes on now can end the wait of that rank.
  [[nodiscard]] bool is_dead(std::size_t rank) const { return dead_[rank]; }
  /// Members of the collective that `rank` waits in who are not in it, where its members are known.
  [[nodiscard]] std::vector<std::size_t> missing(std::size_t rank) const;
  /// Circles in which each waits for the next and the last for the first; each once.
  [[nodiscard]] std::vector<std::vector<std::size_t>> circles() const;
  /// Who waits for `rank`, directly or through others, ascending.
  [[nodiscard]] std::vector<std::size_t> waiting_for(std::size_t rank) const;

 private:
  [[nodiscard]] std::optional<std::size_t> find(std::int64_t rank) const;
  void add_messages(std::size_t rank);
  void add_collective(std::size_t rank);
  void add_finalize(std::size_t rank);
  [[nodiscard]] bool has_come(std::size_t other, std::uint64_t context, std::uint64_t number) const;
  void find_dead();

  const std::vector<RankState>& ranks_;
  std::unordered_map<std::uint32_t, std::size_t> places_;
  std::vector<std::vector<Clause>> clauses_;
  std::vector<bool> dead_;
};

/// Whether the rank waits in MPI_Finalize.
[[nodiscard]] bool is_in_finalize(const RankState& rank) noexcept;

}  // namespace isthmus::mpiexec::stuck
