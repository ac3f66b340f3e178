#pragma once

#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "coll/flow/flow.hpp"
#include "comm/communicator.hpp"
#include "comm/group.hpp"
#include "p2p/message/message.hpp"

/// How processes agree on a new communicator (MPI 5.0, sections 7.4.2 and 7.6.2). Each function is collective
/// over the communicator it is given, or over the group, and makes only the communicator: name, error
/// handler, info and attributes are the caller's business.
///
/// The context of a new communicator comes from one process, which needs nobody's consent
/// (`Engine::new_context_id`); what is agreed on is only whose.
namespace isthmus::coll {

/// The same groups, a context of its own. For both kinds of communicators.
Result<Ref<Communicator>> duplicate(Communicator& comm);

/// `duplicate` without waiting.
class Duplication {
 public:
  explicit Duplication(Communicator& comm) : comm_(Ref<Communicator>::share(&comm)), driver_(comm.engine()) {}
  Duplication(const Duplication&) = delete;
  Duplication& operator=(const Duplication&) = delete;

  /// Once.
  void begin();
  /// It has begun, and nothing more has to be sent or received. Makes no progress. Not to be destroyed
  /// between.
  [[nodiscard]] bool ready() const noexcept { return flow_ && flow_->is_done(); }
  /// When it is ready. Where there is no memory, to be called again.
  Result<Ref<Communicator>> make();

 private:
  Ref<Communicator> comm_;
  Driver driver_;
  ContextId context_ = 0;
  std::optional<Flow> flow_;
};

/// The processes of `group`, which is in `comm`'s group; null for those that are not in it. Only members
/// talk, so that disjoint groups may be made at the same time. For an intercommunicator the new one joins the
/// `group`s of both sides, and is null for all if one of them is empty.
Result<Ref<Communicator>> create(Communicator& comm, const Ref<Group>& group);

/// As `create`, called by the members of `group` alone; `tag` tells calls of concurrent threads apart.
Result<Ref<Communicator>> create_group(Communicator& comm, const Ref<Group>& group, int tag);

/// The processes of the same `color` in order of `key`; null for those with `undefined`. For an
/// intercommunicator, joins both sides' processes of the colour, and is null if one side has none.
Result<Ref<Communicator>> split(Communicator& comm, int color, int key);

/// Joins `local`, whose `local_leader` finds rank `remote_leader` of `peer` at the other side. `peer` is null
/// at all but the leader. Errors of the leaders reach every process.
Result<Ref<Communicator>> join(Communicator& local, int local_leader, Communicator* peer, int remote_leader,
                               int tag);

/// Groups that become communicators without a parent (MPI 5.0, sections 7.4.2 and 7.6.2). They meet in
/// `world`, which has all processes. `name` tells calls of concurrent threads apart, by a hash.
Result<Ref<Communicator>> create_from_group(Communicator& world, const Ref<Group>& group,
                                            std::string_view name);
/// As `join`; `remote` is null at all but the leader.
Result<Ref<Communicator>> join_from_groups(Communicator& world, const Ref<Group>& local, int local_leader,
                                           const Group* remote, int remote_leader, std::string_view name);

/// Both groups of an intercommunicator in one; the side that says `high` comes last.
Result<Ref<Communicator>> merge(Communicator& inter, bool high);

}  // namespace isthmus::coll
