#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include "coll/call/call.hpp"
#include "coll/messages/neighbor.hpp"
#include "comm/communicator.hpp"

namespace isthmus::coll {

/// Copies of the counts and displacements of a call that goes on when it has returned. MPI 5.0, section 6.12,
/// has programs keep them until the collective is complete. But mpi4py 4.1 frees them at once, and gets away
/// with it where a library looks at them only when it is called.
class KeptLists {
 public:
  /// Whether calls of this kind have lists.
  template <class Call>
  static constexpr bool has_any = requires(Call call) { call.counts; } || requires(Call call) {
    call.send.counts;
  } || requires(Call call) { call.receive.counts; };

  /// `call` refers to copies from then on, which live as long as this object.
  template <class Call>
  KeptLists(Call& call, Communicator& comm) {
    if constexpr (requires { call.counts; }) {
      keep(call.counts, static_cast<std::size_t>(comm.size()));
    } else if constexpr (among_neighbors<Call>) {
      if (const auto neighbors = Neighborhood::of(comm)) {  // the call's arguments were checked by them
        keep_side(call.receive, (*neighbors)->sources().size());
        keep_side(call.send, (*neighbors)->destinations().size());
      }
    } else if constexpr (requires { call.receive; }) {
      const auto processes = static_cast<std::size_t>(comm.remote_size());
      keep_side(call.receive, processes);
      keep_side(call.send, processes);
    }
  }

 private:
  template <class Call>
  static constexpr bool among_neighbors =
      std::derived_from<Call, call::NeighborAllgatherv> || std::derived_from<Call, call::NeighborAlltoallv> ||
      std::derived_from<Call, call::NeighborAlltoallw>;

  template <class Side>
  void keep_side(Side& side, std::size_t blocks) {
    if constexpr (requires { side.counts; }) {
      keep(side.counts, blocks);
      keep(side.displacements, blocks);
    }
  }
  void keep(Integers& list, std::size_t entries) {
    if (!list.is_list()) return;
    std::vector<std::int64_t>& copy = lists_.emplace_back(entries);
    for (std::size_t i = 0; i < entries; ++i)
      copy[i] = list[static_cast<int>(i)];
    list = Integers(copy.data());
  }

  std::vector<std::vector<std::int64_t>> lists_;
};

}  // namespace isthmus::coll
