#include "coll/context/footing.hpp"

namespace isthmus::coll {

bool on_one_host(const Communicator& comm) {
  const launch::Job& job = comm.engine().job();
  if (job.on_one_host()) return true;
  if (job.lines()) return false;
  for (int rank = 0; rank < comm.size(); ++rank)
    if (!job.slot_of(comm.peer(rank))) return false;
  return true;
}

Result<Footing*> Footing::make(Communicator& comm) {
  std::unique_ptr<Team> team;
  std::unique_ptr<Hierarchy> hierarchy;
  if (comm.engine().job().lines()) {
    // Who shares memory with whom changes: messages alone find the members wherever they are.
  } else if (on_one_host(comm)) {
    auto made = Team::make(comm);
    if (!made) return std::unexpected(std::move(made).error());
    team = std::move(*made);
    if (team) {
      auto sockets = Hierarchy::of_sockets(comm, *team);
      if (!sockets) return std::unexpected(std::move(sockets).error());
      hierarchy = std::move(*sockets);
      if (hierarchy) team->take_seats(hierarchy->order());
    }
  } else {
    auto made = Hierarchy::of_hosts(comm);
    if (!made) return std::unexpected(std::move(made).error());
    hierarchy = std::move(*made);
  }
  auto* footing = new Footing(std::move(team), std::move(hierarchy));
  comm.collective_state.reset(footing);
  return footing;
}

}  // namespace isthmus::coll
