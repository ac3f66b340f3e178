#include <optional>
#include <utility>

#include "abi/comm/communicator.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "abi/request/request.hpp"
#include "coll/agree/agree.hpp"

namespace isthmus::abi {
namespace {

/// MPI_Comm_idup under way. Attributes, and the hints of MPI_Comm_idup_with_info, are those of the moment
/// when it was called.
class DuplicateOperation final : public Operation {
 public:
  DuplicateOperation(Communicator& comm, Ref<Info> hints, MPI_Comm* newcomm)
      : Operation(Ref<Communicator>::share(&comm)),
        duplication_(comm),
        hints_(std::move(hints)),
        newcomm_(newcomm) {}

  Result<> copy_attributes() {
    return communicator()->attributes.copy_to(attributes_, communicator()->handle);
  }
  void begin() { duplication_.begin(); }

  bool ready() override {
    if (!outcome_ && duplication_.ready()) outcome_ = deliver();
    return outcome_.has_value();
  }
  Result<> report(MPI_Status& status) override {
    store_empty_status(&status);
    if (*outcome_) return {};
    return fail(outcome_->error().error_class(), outcome_->error().text());
  }
  bool retire(Engine&) override { return false; }
  /// The program may not free such requests (section 6.12); then at least nothing is left half done.
  bool abandon(Runtime& runtime, Request&) override {
    settle(runtime);
    return true;
  }
  void settle(Runtime& runtime) {
    runtime.engine->wait_for([this] { return ready(); });
  }

 private:
  /// Where there is no memory, it has done nothing.
  Result<> deliver() {
    Result<Ref<Communicator>> copy = duplication_.make();
    Communicator* const made = copy ? copy->get() : nullptr;
    ISTHMUS_TRY(give(std::move(copy), *communicator(), hints_.get(), newcomm_));
    made->attributes = std::move(attributes_);
    return {};
  }

  coll::Duplication duplication_;
  Ref<Info> hints_;
  AttributeSet attributes_;
  MPI_Comm* newcomm_;
  std::optional<Result<>> outcome_;
};

Result<> start(Communicator& comm, Ref<Info> hints, MPI_Comm* newcomm, MPI_Request* request) {
  Runtime& runtime = Runtime::get();
  const auto operation = make_ref<DuplicateOperation>(comm, std::move(hints), newcomm);
  const Result<> copied = operation->copy_attributes();
  publish_and_begin(runtime, operation, request, [&] { operation->begin(); });
  if (copied) return {};
  // The others have begun, and so has this process: it takes its part, and keeps nothing of it.
  operation->settle(runtime);
  runtime.engine->requests().give_back(find_request(runtime, *request));
  *request = MPI_REQUEST_NULL;
  runtime.communicators.remove(*newcomm);
  *newcomm = MPI_COMM_NULL;
  return fail(copied.error().error_class(), copied.error().text());
}

Result<> check_idup_outputs(const MPI_Comm* newcomm, const MPI_Request* request) {
  ISTHMUS_TRY(check_pointer(newcomm, "newcomm"));
  return check_pointer(request, "request");
}

}  // namespace

ISTHMUS_ENTRY(int, Comm_idup)(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  return call("MPI_Comm_idup", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_idup_outputs(newcomm, request));
    return start(c, nullptr, newcomm, request);
  });
}

ISTHMUS_ENTRY(int, Comm_idup_with_info)(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm,
                                        MPI_Request* request) {
  return call("MPI_Comm_idup_with_info", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_idup_outputs(newcomm, request));
    Result<Info*> hints = find_info(info);
    if (!hints) return std::unexpected(std::move(hints).error());
    return start(c, *hints != nullptr ? (*hints)->duplicate() : nullptr, newcomm, request);
  });
}

}  // namespace isthmus::abi
