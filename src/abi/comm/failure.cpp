// User-level failure mitigation (MPI Forum, "User-Level Failure Mitigation", the chapter Process Fault
// Tolerance of its ticket 20): what a program does when processes of it have died.

#include <mpi-ext.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "abi/comm/communicator.hpp"
#include "abi/core/entry.hpp"
#include "abi/request/request.hpp"
#include "coll/agree/survivors.hpp"

namespace isthmus::abi {
namespace {

using Value = Agreements::Value;
using coll::failed_members;
using coll::join_shrink;
using coll::make_shrunk;

std::vector<PeerId> acknowledged_members(Runtime& runtime, const Communicator& comm) {
  std::vector<PeerId> failed = failed_members(comm);
  const auto known = runtime.acknowledged_failures.find(comm.context_id());
  failed.resize(std::min(failed.size(), known != runtime.acknowledged_failures.end() ? known->second : 0));
  return failed;
}

/// Acknowledges the first `count`; what was acknowledged stays so.
std::size_t acknowledge(Runtime& runtime, Communicator& comm, std::size_t count) {
  comm.engine().look_for_losses();
  const std::size_t failed = failed_members(comm).size();
  std::size_t& acknowledged = runtime.acknowledged_failures[comm.context_id()];
  acknowledged = std::max(acknowledged, std::min(count, failed));
  // Receives from any source have been told of each loss that the program knows of.
  if (acknowledged == failed) comm.context().acknowledge_losses();
  return acknowledged;
}

Result<> give_group(Runtime& runtime, std::vector<PeerId> processes, MPI_Group* group) {
  *group = processes.empty() ? MPI_GROUP_EMPTY : runtime.groups.add(make_ref<Group>(std::move(processes)));
  return {};
}

/// Joins an agreement on `flag`.
void join_agree(Communicator& comm, int flag, std::function<void(const Value&)> done) {
  coll::join_agree(comm, flag, acknowledged_members(Runtime::get(), comm), std::move(done));
}

Result<> end_agree(const Value& outcome, int* flag) {
  *flag = outcome.flag;
  if (!outcome.failed) return {};
  return fail(ErrorClass::proc_aborted, "a member is no more, and not all members have acknowledged that");
}

/// An agreement under way; `end` makes of its outcome what the program gets.
class AgreementOperation final : public Operation {
 public:
  AgreementOperation(Communicator& comm, std::function<Result<>(Communicator&, const Value&)> end)
      : Operation(Ref<Communicator>::share(&comm)), end_(std::move(end)) {}

  void decided(const Value& outcome) { outcome_ = outcome; }
  bool ready() override {
    if (outcome_ && !result_) result_ = end_(*communicator(), *outcome_);
    return result_.has_value();
  }
  Result<> report(MPI_Status& status) override {
    store_empty_status(&status);
    if (*result_) return {};
    return fail(result_->error().error_class(), result_->error().text());
  }
  bool retire(Engine&) override { return false; }
  bool abandon(Runtime& runtime, Request&) override {
    runtime.engine->wait_for([this] { return ready(); });
    return true;
  }

 private:
  std::function<Result<>(Communicator&, const Value&)> end_;
  std::optional<Value> outcome_;
  std::optional<Result<>> result_;
};

Value wait_for(Communicator& comm, std::optional<Value>& outcome) {
  comm.engine().wait_for([&] { return outcome.has_value(); });
  return std::move(*outcome);  // a copy would need memory
}

}  // namespace

ISTHMUS_EXTENSION(int, Comm_revoke)(MPI_Comm comm) {
  return call("MPIX_Comm_revoke", comm, [&](Communicator& c) -> Result<> {
    c.revoke(ErrorClass::revoked);
    return {};
  });
}

ISTHMUS_EXTENSION(int, Comm_is_revoked)(MPI_Comm comm, int* flag) {
  return call("MPIX_Comm_is_revoked", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    c.engine().progress();
    *flag = c.is_revoked() ? 1 : 0;
    return {};
  });
}

ISTHMUS_EXTENSION(int, Comm_shrink)(MPI_Comm comm, MPI_Comm* newcomm) {
  return call("MPIX_Comm_shrink", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
    return give(coll::shrink(c), c, c.info.get(), newcomm);
  });
}

ISTHMUS_EXTENSION(int, Comm_ishrink)(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  return call("MPIX_Comm_ishrink", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
    ISTHMUS_TRY(check_pointer(request, "request"));
    auto operation = make_ref<AgreementOperation>(c, [newcomm](Communicator& parent, const Value& outcome) {
      return give(make_shrunk(parent, outcome), parent, parent.info.get(), newcomm);
    });
    publish_and_begin(Runtime::get(), operation, request, [&] {
      join_shrink(c, [operation](const Value& value) { operation->decided(value); });
    });
    return {};
  });
}

ISTHMUS_EXTENSION(int, Comm_agree)(MPI_Comm comm, int* flag) {
  return call("MPIX_Comm_agree", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    std::optional<Value> outcome;
    join_agree(c, *flag, [&](const Value& value) { outcome = value; });
    return end_agree(wait_for(c, outcome), flag);
  });
}

ISTHMUS_EXTENSION(int, Comm_iagree)(MPI_Comm comm, int* flag, MPI_Request* request) {
  return call("MPIX_Comm_iagree", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    ISTHMUS_TRY(check_pointer(request, "request"));
    auto operation = make_ref<AgreementOperation>(
        c, [flag](Communicator&, const Value& outcome) { return end_agree(outcome, flag); });
    publish_and_begin(Runtime::get(), operation, request, [&] {
      join_agree(c, *flag, [operation](const Value& value) { operation->decided(value); });
    });
    return {};
  });
}

ISTHMUS_EXTENSION(int, Comm_get_failed)(MPI_Comm comm, MPI_Group* failed) {
  return call("MPIX_Comm_get_failed", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(failed, "failed"));
    c.engine().look_for_losses();
    return give_group(Runtime::get(), failed_members(c), failed);
  });
}

ISTHMUS_EXTENSION(int, Comm_ack_failed)(MPI_Comm comm, int num_to_ack, int* num_acked) {
  return call("MPIX_Comm_ack_failed", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(num_acked, "num_acked"));
    if (num_to_ack < 0)
      return fail(ErrorClass::arg, "num_to_ack " + std::to_string(num_to_ack) + " is negative");
    *num_acked = static_cast<int>(acknowledge(Runtime::get(), c, static_cast<std::size_t>(num_to_ack)));
    return {};
  });
}

ISTHMUS_EXTENSION(int, Comm_failure_ack)(MPI_Comm comm) {
  return call("MPIX_Comm_failure_ack", comm, [&](Communicator& c) -> Result<> {
    c.engine().look_for_losses();
    acknowledge(Runtime::get(), c, failed_members(c).size());
    return {};
  });
}

ISTHMUS_EXTENSION(int, Comm_failure_get_acked)(MPI_Comm comm, MPI_Group* failed) {
  return call("MPIX_Comm_failure_get_acked", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(failed, "failed"));
    return give_group(Runtime::get(), acknowledged_members(Runtime::get(), c), failed);
  });
}

}  // namespace isthmus::abi
