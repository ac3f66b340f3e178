// Who exchanges messages with whom: the lower half of the ranks with the upper.
#pragma once

#include "suite/job/job.hpp"
#include "suite/job/message_type.hpp"

namespace isthmus::bench {

inline constexpr int message_tag = 1;
inline constexpr int acknowledgement_tag = 2;

struct Pair {
  bool active;  // has part in it
  bool first;   // the side that sends first, and that the first placement is for
  int peer;
  int pairs;
};

inline Pair pair_of(const Job& job) {
  const int most = job.ranks() / 2;
  const int pairs = job.options().pairs > 0 && job.options().pairs < most ? job.options().pairs : most;
  const bool first = job.rank() < pairs;
  return {job.rank() < 2 * pairs, first, first ? job.rank() + pairs : job.rank() - pairs, pairs};
}

// Which of the two placements is this rank's.
inline int side_of(const Job& job) {
  return pair_of(job).first ? 0 : 1;
}

inline void send(const void* data, std::size_t bytes, int peer, int tag = message_tag) {
  call(MPI_Send(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD), "MPI_Send");
}

inline void receive(void* data, std::size_t bytes, int peer, int tag = message_tag) {
  call(MPI_Recv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
       "MPI_Recv");
}

inline void send(const void* data, const MessageType& what, int peer) {
  call(MPI_Send(data, what.count(), what.type(), peer, message_tag, MPI_COMM_WORLD), "MPI_Send");
}

inline void receive(void* data, const MessageType& what, int peer) {
  call(MPI_Recv(data, what.count(), what.type(), peer, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
       "MPI_Recv");
}

// Adds the column with what travels of a message, where that is not all of its buffer.
inline void add_carried(const Job& job, const MessageType& what, Meaning& meaning) {
  if (job.options().layout.has_gaps())
    meaning.extras.push_back({"Transmitted (B)", static_cast<double>(what.carried()), true});
}

// Contents are checked before and after what is timed, where the user asked for it.
template <class Exchange>
void check(const Job& job, Exchange& exchange, unsigned round) {
  if (job.options().validate) job.demand(exchange.fault(round));
}

}  // namespace isthmus::bench
