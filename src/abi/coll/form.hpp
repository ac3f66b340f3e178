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

/// A nonblocking collective that has begun.
struct Begun {
  std::unique_ptr<coll::Driver> driver;
  coll::Lane lane;
  coll::Flow flow;
  bool was_broken;  ///< the communicator, before that
};

/// A nonblocking or persistent collective: a flow on a lane of its own. What the program has freed meanwhile
/// lives as long as it does.
class CollectiveOperation : public Operation {
 public:
  [[nodiscard]] bool active() const noexcept final { return state_ != State::inactive; }
  bool ready() final { return state_ != State::under_way || (flow_ && flow_->is_done()); }
  void look() final { driver_->look(looks_with_own_core); }
  void say(WaitItems& items) const noexcept final;
  Result<> report(MPI_Status& status) final;
  bool retire(Engine& engine) final;
  bool end_well(Engine& engine, MPI_Status* status) final {
    if (!has_ended_well() || engine.trace()) return false;  // a trace is told of the end by `retire`
    store_empty_status(status);
    state_ = State::inactive;
    return true;
  }
  Result<> start(Runtime& runtime) final;
  [[nodiscard]] Result<> may_free() const final;
  bool abandon(Runtime&, Request&) final { return true; }

  /// Starts it for the first time, or again.
  virtual void begin() = 0;
  /// Whether it has ended, as far as has been looked, and without an error.
  [[nodiscard]] bool has_ended_well() const noexcept {
    return state_ == State::ended && outcome_.has_value();
  }

 protected:
  enum class Form : std::uint8_t { nonblocking, persistent };
  CollectiveOperation(Communicator& comm, Form form)
      : Operation(Ref<Communicator>::share(&comm)),
        driver_(std::make_unique<coll::Driver>(comm.engine())),
        lane_(form == Form::persistent ? coll::Lane::persistent(comm, *driver_)
                                       : coll::Lane::nonblocking(comm, *driver_)),
        form_(form) {}
  CollectiveOperation(Communicator& comm, Begun&& begun);
  ~CollectiveOperation() override;

  /// What traces are told of it.
  [[nodiscard]] virtual trace::Collective traced() const noexcept = 0;
  [[nodiscard]] const coll::Lane& lane() const noexcept { return lane_; }
  [[nodiscard]] trace::Form trace_form() const noexcept {
    return form_ == Form::persistent ? trace::Form::persistent : trace::Form::nonblocking;
  }
  /// `make_flow` begins the flow among the ranks that it is given.
  template <class MakeFlow>
  [[gnu::always_inline]] void begin_flow(MakeFlow make_flow) {
    if (MessageTrace* const trace = communicator()->engine().trace()) [[unlikely]]
      trace->collective_begins(traced());
    was_broken_ = communicator()->is_broken();
    state_ = State::under_way;  // the program's own operations may run meanwhile, and must not free it
    try {
      coll::Flow flow = make_flow(coll::Ranks{*communicator(), lane_});
      if (!flow.is_done())
        flow_.emplace(std::move(flow));
      else if (flow.has_succeeded() && !was_broken_) [[likely]]
        state_ = State::ended;  // `outcome_` is success while nothing else is known
      else
        end(flow);
    } catch (...) {
      state_ = State::inactive;
      throw;
    }
  }

 private:
  enum class State : std::uint8_t { inactive, under_way, ended };

  /// `flow` is done.
  void end(coll::Flow& flow);

  /// As blocking collectives do before the first progress (`Team::wait`).
  static constexpr unsigned looks_with_own_core = 1000;

  std::unique_ptr<coll::Driver> driver_;
  const coll::Lane lane_;
  const Form form_;
  State state_ = State::inactive;
  bool was_broken_ = false;         ///< the communicator, when the flow began
  std::optional<coll::Flow> flow_;  ///< one that was suspended when it began; with `State::under_way`
  Result<> outcome_;                ///< with `State::ended`; success before
};

/// `Call`: one of `coll::call`. What most calls have nothing to keep in takes no place and no time.
template <class Call>
class CollectiveCall final : public CollectiveOperation {
 public:
  static constexpr Form nonblocking = Form::nonblocking, persistent = Form::persistent;

  CollectiveCall(Communicator& comm, Form form, const Call& call)
      : CollectiveOperation(comm, form), call_(call), kept_(call), lists_(call_, comm) {}
  /// What has begun knows nothing of `lists_`.
  CollectiveCall(Communicator& comm, Begun&& begun, const Call& call)
    requires coll::GoesInLanes<Call>
      : CollectiveOperation(comm, std::move(begun)), call_(call), kept_(call) {}
  CollectiveCall(Communicator& comm, Form form, const Call& call, TypeList send_types, TypeList receive_types)
      : CollectiveOperation(comm, form),
        call_(call),
        kept_(call),
        types_(call_, std::move(send_types), std::move(receive_types)),
        lists_(call_, comm) {}

  /// Begins the nonblocking form of `call`.
  [[gnu::always_inline]] static coll::Flow start_once(const coll::Ranks& ranks, const Call& call) {
    if (coll::compares(ranks.comm())) [[unlikely]]
      return coll::checked_start(ranks, call, &coll::start<Call>);
    return coll::start(ranks, call);
  }

  void begin() override {
    begin_flow([this](const coll::Ranks& ranks) {
      if (ranks.lane().kind == coll::Lane::Kind::nonblocking) return start_once(ranks, call_);
      if constexpr (coll::GoesInLanes<Call>) return coll::start_again(ranks, call_, way_);
      return coll::start(ranks, call_);
    });
  }

 private:
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
    Runtime& runtime = Runtime::get();
    RequestPool& requests = runtime.engine->requests();
    Request* const carrier = requests.take(Request::Kind::generalized);
    try {
      if (auto operation = begin(runtime, comm, call, std::forward<Lists>(lists)...)) {
        carrier->owner = std::move(operation);
      } else {
        carrier->kind = Request::Kind::collective;
        carrier->complete = true;
      }
    } catch (...) {
      requests.give_back(carrier);
      throw;
    }
    *request = handle_of(*carrier);
    return {};
  }
  template <class Call>
  Result<> stay_out(Communicator& comm, const Call& call) const {
    return run(comm, call);
  }

 private:
  // Null: it has ended, and well. A trace is told of the end where the program hears of it, so that there is
  // an operation then.

  /// The flow refers to lists that the operation keeps.
  template <class Call, class... Lists>
  static Ref<Operation> begin(Runtime&, Communicator& comm, const Call& call, Lists&&... lists) {
    using Made = CollectiveCall<Call>;
    auto operation = make_ref<Made>(comm, Made::nonblocking, call, std::forward<Lists>(lists)...);
    operation->begin();
    if (operation->has_ended_well() && !comm.engine().trace()) return {};
    return operation;
  }
  /// The flow has all that it needs: what ends at once has no operation.
  template <coll::GoesInLanes Call>
  [[gnu::always_inline]] static Ref<Operation> begin(Runtime& runtime, Communicator& comm, const Call& call) {
    // Taken away: the program's own operations may run meanwhile.
    std::unique_ptr<coll::Driver> driver = std::move(runtime.next_driver);
    if (!driver) [[unlikely]]
      driver = std::make_unique<coll::Driver>(*runtime.engine);
    const bool was_broken = comm.is_broken();
    const coll::Lane lane = coll::Lane::nonblocking(comm, *driver);
    MessageTrace* const trace = runtime.engine->trace();
    if (trace) [[unlikely]]
      trace->collective_begins(coll::traced(call, comm, trace::Form::nonblocking, lane.number, lane.tag));
    coll::Flow flow = CollectiveCall<Call>::start_once({comm, lane}, call);
    if (flow.is_done() && flow.has_succeeded() && !was_broken && !trace) [[likely]] {
      runtime.next_driver = std::move(driver);
      return {};
    }
    return keep(comm, {std::move(driver), lane, std::move(flow), was_broken}, call);
  }
  template <class Call>
  [[gnu::noinline]] static Ref<Operation> keep(Communicator& comm, Begun&& begun, const Call& call) {
    try {
      return make_ref<CollectiveCall<Call>>(comm, std::move(begun), call);
    } catch (...) {
      // The others have begun, and so has this process: it takes its part.
      comm.engine().wait_for([&] { return begun.flow.is_done(); });
      throw;
    }
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
