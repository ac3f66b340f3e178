#include <utility>

#include "abi/comm/communicator.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "coll/agree/agree.hpp"

namespace isthmus::abi {

ISTHMUS_ENTRY(int, Comm_test_inter)(MPI_Comm comm, int* flag) {
  return call("MPI_Comm_test_inter", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    *flag = c.is_inter() ? 1 : 0;
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_remote_size)(MPI_Comm comm, int* size) {
  return call("MPI_Comm_remote_size", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_inter(c));
    ISTHMUS_TRY(check_pointer(size, "size"));
    *size = c.remote_size();
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_remote_group)(MPI_Comm comm, MPI_Group* group) {
  return call("MPI_Comm_remote_group", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_inter(c));
    ISTHMUS_TRY(check_pointer(group, "group"));
    *group = Runtime::get().groups.add(c.remote_group());
    return {};
  });
}

ISTHMUS_ENTRY(int, Intercomm_create)
(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag,
 MPI_Comm* newintercomm) {
  return call("MPI_Intercomm_create", local_comm, [&](Communicator& local) -> Result<> {
    ISTHMUS_TRY(check_intra(local, "local_comm"));
    ISTHMUS_TRY(clear_output(newintercomm, "newintercomm"));
    ISTHMUS_TRY(check_rank(local, local_leader, false, "local_leader"));
    ISTHMUS_TRY(check_creation_tag(tag));
    Communicator* peer = nullptr;
    if (local.rank() == local_leader) {  // the only one for whom the peer arguments mean something
      Result<Communicator*> found = find_comm(peer_comm, "peer_comm");
      if (!found) return std::unexpected(std::move(found).error());
      peer = *found;
      ISTHMUS_TRY(check_rank(*peer, remote_leader, false, "remote_leader"));
    }
    return give(coll::join(local, local_leader, peer, remote_leader, tag), local, nullptr, newintercomm);
  });
}

ISTHMUS_ENTRY(int, Intercomm_merge)(MPI_Comm intercomm, int high, MPI_Comm* newintracomm) {
  return call("MPI_Intercomm_merge", intercomm, [&](Communicator& inter) -> Result<> {
    ISTHMUS_TRY(check_inter(inter, "intercomm"));
    ISTHMUS_TRY(clear_output(newintracomm, "newintracomm"));
    return give(coll::merge(inter, high != 0), inter, nullptr, newintracomm);
  });
}

}  // namespace isthmus::abi
