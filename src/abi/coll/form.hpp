#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "abi/core/call.hpp"
#include "abi/request/request.hpp"
#include "coll/call/call.hpp"
#include "coll/call/describe.hpp"
#include "coll/entry/kept_lists.hpp"
#include "coll/entry/start.hpp"
#include "coll/flow/checked.hpp"

/// The three forms of a collective (MPI 5.0, sections 6.12 and 6.13): what its entry points do once its
/// arguments, the same for all, have been checked.
namespace isthmus::abi {

/// Datatypes of one side of an alltoallw, which a call refers to.
using TypeList = std::vector<const Datatype*>;

/// Datatypes and operations that a call refers to, but for lists of datatypes; they live as long as this
/// does.
class KeptObjects {
 public:
  template <class Call>
  explicit KeptObjects(const Call& call) {
    if constexpr (requires { call.type; }) keep(call.type, first_);
    if constexpr (requires { call.what; }) {
      keep(call.what.type, first_);
      keep(call.what.op, second_);
    }
    if constexpr (requires { call.send.type; }) keep(call.send.type, first_);
    if constexpr (requires { call.receive.type; }) keep(call.receive.type, second_);
  }

 private:
  static void keep(const RefCounted* object, Ref<const RefCounted>& place) {
    if (object && !object->immortal()) place = Ref<const RefCounted>::share(object);
  }

  Ref<const RefCounted> first_, second_;
};

/// Lists of datatypes of a call, and the datatypes in them.
class KeptTypeLists {
 public:
  KeptTypeLists() = default;
  /// `call` refers to them from then on.
  template <class Call>
  KeptTypeLists(Call& call, TypeList send, TypeList receive)
      : send_(std::move(send)), receive_(std::move(receive)) {
    call.send.types = send_;
    call.receive.types = receive_;
    kept_.reserve(send_.size() + receive_.size());
    for (const TypeList* types : {&send_, &receive_})
      for (const Datatype* type : *types)
        if (type && !type->immortal()) kept_.push_back(Ref<const Datatype>::share(type));
  }

 private:
  const TypeList send_, receive_;
  std::vector<Ref<const Datatype>> kept_;
};

/// A nonblocking or persistent collective: a flow on a lane of its own. What the program has freed meanwhile
/// lives as long as it does.
class CollectiveOperation : public Operation {
 public:
  [[nodiscard]] bool active() const noexcept final { return begun_; }
  bool ready() final { return !begun_ || (flow_ && flow_->is_done()); }
  void look() final { driver_.look(looks_with_own_core); }
  void say(WaitItems& items) const noexcept final;
  Result<> report(MPI_Status& status) final;
  bool retire(Engine& engine) final;
  Result<> start(Runtime& runtime) final;
  [[nodiscard]] Result<> may_free() const final;
  bool abandon(Runtime&, Request&) final { return true; }

  /// Starts it for the first time, or again.
  void begin() {
    was_broken_ = communicator()->is_broken();
    begun_ = true;  // the program's own operations may run meanwhile, and must not free it
    try {
      flow_.emplace(make_flow({*communicator(), lane_}));
    } catch (...) {
      begun_ = false;
      throw;
    }
  }

 protected:
  enum class Form : std::uint8_t { nonblocking, persistent };
  CollectiveOperation(Communicator& comm, Form form);

  /// Begins the flow.
  virtual coll::Flow make_flow(coll::Ranks ranks) = 0;
  virtual trace::Collective traced() const noexcept = 0;
  [[nodiscard]] const coll::Lane& lane() const noexcept { return lane_; }
  [[nodiscard]] trace::Form trace_form() const noexcept {
    return form_ == Form::persistent ? trace::Form::persistent : trace::Form::nonblocking;
  }

 private:
  /// As blocking collectives do before the first progress (`Team::wait`).
  static constexpr unsigned looks_with_own_core = 1000;

  coll::Driver driver_;
  const coll::Lane lane_;
  const Form form_;
  std::optional<coll::Flow> flow_;
  std::optional<Result<>> outcome_;  ///< of the flow, once it was asked for
  bool begun_ = false;
  bool was_broken_ = false;  ///< the communicator, when the flow began
};

/// `Call`: one of `coll::call`. What most calls have nothing to keep in takes no place and no time.
template <class Call>
class CollectiveCall final : public CollectiveOperation {
 public:
  static constexpr Form nonblocking = Form::nonblocking, persistent = Form::persistent;

  CollectiveCall(Communicator& comm, Form form, const Call& call)
      : CollectiveOperation(comm, form), call_(call), kept_(call), lists_(call_, comm) {}
  CollectiveCall(Communicator& comm, Form form, const Call& call, TypeList send_types, TypeList receive_types)
      : CollectiveOperation(comm, form),
        call_(call),
        kept_(call),
        types_(call_, std::move(send_types), std::move(receive_types)),
        lists_(call_, comm) {}

 private:
  coll::Flow make_flow(coll::Ranks ranks) override {
    if (MessageTrace* const trace = ranks.comm().engine().trace()) [[unlikely]]
      trace->collective_begins(traced());
    if (ranks.lane().kind == coll::Lane::Kind::nonblocking) {
      if (coll::compares(ranks.comm())) [[unlikely]]
        return coll::checked_start(ranks, call_, &coll::start<Call>);
    } else if constexpr (coll::GoesInLanes<Call>) {
      return coll::start_again(ranks, call_, way_);
    }
    return coll::start(ranks, call_);
  }

  [[nodiscard]] trace::Collective traced() const noexcept override {
    return coll::traced(call_, *communicator(), trace_form(), lane().number, lane().tag);
  }

  struct Nothing {
    Nothing() = default;
    Nothing(Call&, Communicator&) {}
  };
  static constexpr bool has_type_lists = requires(Call call) { call.send.types; };

  Call call_;
  const KeptObjects kept_;
  [[no_unique_address]] const std::conditional_t<has_type_lists, KeptTypeLists, Nothing> types_;
  [[no_unique_address]] const std::conditional_t<coll::KeptLists::has_any<Call>, coll::KeptLists, Nothing>
      lists_;
  [[no_unique_address]] std::conditional_t<coll::GoesInLanes<Call>, coll::LaneWay, Nothing> way_;
};

struct Blocking {
  const char* function;

  [[nodiscard]] static Result<> check() { return {}; }
  template <class Call>
  static Result<> run(Communicator& comm, const Call& call) {
    if (comm.checks) [[unlikely]]
      ISTHMUS_TRY(coll::check_call(call, coll::CallForm::blocking, comm));
    const coll::InCollective<Call> current(comm, call);
    return coll::run(call, comm);
  }
  /// For alltoallw and the like: `call` refers to the types.
  template <class Call>
  static Result<> run(Communicator& comm, const Call& call, const TypeList&, const TypeList&) {
    return run(comm, call);
  }
  /// For members of an intercommunicator's group that have no part in it.
  template <class Call>
  static Result<> stay_out(Communicator&, const Call&) {
    return {};
  }
};

struct Nonblocking {
  const char* function;
  MPI_Request* request;

  [[nodiscard]] Result<> check() const {
    if (request) [[likely]]
      return {};
    return check_pointer(request, "request");
  }
  /// `lists`: two of datatypes, for alltoallw and the like.
  template <class Call, class... Lists>
  Result<> run(Communicator& comm, const Call& call, Lists&&... lists) const {
    using Made = CollectiveCall<Call>;
    auto made = make_ref<Made>(comm, Made::nonblocking, call, std::forward<Lists>(lists)...);
    Made& operation = *made;
    publish_and_begin(Runtime::get(), std::move(made), request, [&] { operation.begin(); });
    return {};
  }
  template <class Call>
  Result<> stay_out(Communicator& comm, const Call& call) const {
    return run(comm, call);
  }
};

/// Takes no hints yet.
struct Persistent {
  const char* function;
  MPI_Info info;
  MPI_Request* request;

  [[nodiscard]] Result<> check() const {
    if (auto found = find_info(info); !found) return std::unexpected(std::move(found).error());
    return check_pointer(request, "request");
  }
  template <class Call, class... Lists>
  Result<> run(Communicator& comm, const Call& call, Lists&&... lists) const {
    using Made = CollectiveCall<Call>;
    if (comm.checks) [[unlikely]]
      ISTHMUS_TRY(coll::check_call(call, coll::CallForm::persistent, comm));
    *request =
        publish(Runtime::get(), make_ref<Made>(comm, Made::persistent, call, std::forward<Lists>(lists)...),
                Request::Kind::persistent);
    return {};
  }
  template <class Call>
  Result<> stay_out(Communicator& comm, const Call& call) const {
    return run(comm, call);
  }
};

/// An entry point: finds the communicator, has `body(Communicator&)` check the arguments and run the form.
template <class Form, class Body>
[[gnu::always_inline]] inline int call(const Form& form, MPI_Comm comm, Body&& body) noexcept {
  return call(form.function, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(form.check());
    return body(c);
  });
}

}  // namespace isthmus::abi
