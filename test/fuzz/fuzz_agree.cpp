// Agreement on new communicators with a process that says whatever the input says: what comes of it is a
// communicator with an id of its own, or an error; and those that there were still work.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "channel/shm/ring_reader.hpp"
#include "channel/shm/ring_writer.hpp"
#include "coll/agree/agree.hpp"
#include "coll/agree/circle.hpp"
#include "comm/communicator.hpp"
#include "comm/split.hpp"
#include "input.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"
#include "p2p/message/context_ids.hpp"

namespace isthmus {
namespace {

using namespace coll;

/// As the leader of one side of an intercommunicator writes it.
struct Offer {
  ContextId context;
  std::uint32_t members;
  PeerId leader;
  std::int32_t high, error_class;
};

void require(bool holds) {
  if (!holds) std::abort();
}

/// Process 0 is an engine, process 1 the input.
class Session {
 public:
  explicit Session(fuzz::Input& input) : input_(input) {
    const wire::RingGeometry geometry{64, 16'384};
    auto region = launch::make_region(wire::RegionShape::of(2, geometry), {.idle = wire::IdlePolicy::spin});
    require(region.has_value());
    job_ = std::make_unique<launch::Job>(launch::Job{.rank = 0,
                                                     .size = 2,
                                                     .singleton = false,
                                                     .members = {0, 1},
                                                     .name = "fuzz",
                                                     .host = "here",
                                                     .region = region->view,
                                                     .mapping = region->mapping,
                                                     .region_fd = {}});
    Settings settings;
    settings.warn = false;
    settings.cma = CmaSetting::off;
    auto engine = Engine::make(*job_, settings);
    require(engine.has_value());
    engine_ = std::move(*engine);
    world_ = Communicator::make(*engine_, make_ref<Group>(std::vector<PeerId>{1, 0}), Engine::world_context);
    self_ = Communicator::make(*engine_, make_ref<Group>(std::vector<PeerId>{0}), Engine::self_context);
    inter_ = Communicator::make_inter(*engine_, self_->group(), make_ref<Group>(std::vector<PeerId>{1}), 8,
                                      input_.below(2) != 0);
    const std::uint32_t number = region_view().header().rings_used.fetch_add(1);
    out_ = RingWriter(region_view().ring(number), geometry);
    region_view().directory(0)[1].store(number + 1);
    region_view().block(0).connections.fetch_add(1);
  }

  void step() {
    Communicator& comm =
        made_.empty() || input_.below(2) != 0 ? *world_ : *made_[input_.below(256) % made_.size()];
    switch (input_.below(9)) {
      case 0:
        say_context(comm, static_cast<int>(Tag::set_up));
        return take(duplicate(comm), comm);
      case 1:
        say_context(*inter_, static_cast<int>(Tag::set_up));
        return take(duplicate(*inter_), *inter_);
      case 2:
        return duplicate_later(input_.below(2) != 0 ? comm : *inter_);
      case 3:
        say(comm, agree_local_tag, entry());
        say_offer(comm);
        return take(split(comm, static_cast<int>(input_.below(3)), static_cast<int>(input_.below(3))), comm);
      case 4:
        say(*inter_, agree_tag, entry());
        return take(split(*inter_, static_cast<int>(input_.below(3)), 0), *inter_);
      case 5:
        say_offer(*inter_);
        return take(merge(*inter_, input_.below(2) != 0), *inter_);
      case 6:
        say_offer(*inter_);
        say_members(*inter_, agree_tag);
        return take(create(*inter_, self_->group()), *inter_);
      case 7: {
        say(*world_, agree_user_tag, offer());
        say_members(*world_, agree_user_tag);
        return take(join(*self_, 0, world_.get(), 0, 0), *self_);
      }
      default:
        if (made_.empty()) return;
        made_.erase(made_.begin() + input_.below(256) % static_cast<std::ptrdiff_t>(made_.size()));
    }
  }
  void finish() {
    made_.clear();
    check_world();
  }

 private:
  [[nodiscard]] const wire::RegionView& region_view() const { return job_->region; }

  ContextId some_context() {
    const PeerId maker = input_.below(2);
    switch (input_.below(6)) {
      case 0:
        return input_.take<std::uint64_t>();
      case 1:
        return input_.below(12);
      default:
        return ContextIds(maker, 1 + input_.below(8)).take() + (input_.below(8) == 0 ? 1 : 0);
    }
  }
  std::uint32_t some_number() {
    const std::uint32_t numbers[]{0, 1, 1, 2, 1U << 31, ~0U};
    return input_.pick(numbers);
  }
  Offer offer() {
    return {some_context(), some_number(), some_number(), static_cast<std::int32_t>(input_.below(2)),
            input_.below(8) == 0 ? input_.take<std::int32_t>() : 0};
  }
  SplitEntry entry() {
    return {input_.below(8) != 0 ? static_cast<std::int32_t>(input_.below(3)) : input_.take<std::int32_t>(),
            input_.take<std::int8_t>(), some_context()};
  }

  template <class T>
  void say(const Communicator& comm, int tag, const T& fact) {
    say_bytes(comm, tag, std::as_bytes(std::span(&fact, 1)));
  }
  /// Sometimes of another size than is waited for. Whoever waits gets as many as it can wait for.
  void say_bytes(const Communicator& comm, int tag, std::span<const std::byte> fact) {
    drain();
    const std::size_t bytes = input_.below(16) != 0 ? fact.size() : input_.below(33);
    std::array<std::byte, wire::inline_capacity> payload{};
    std::ranges::copy(fact.first(std::min(bytes, fact.size())), payload.begin());
    require(out_.has_cell());
    out_.publish({.context = comm.context_id() + 1,
                  .source = comm.rank() == 0 && !comm.is_inter() ? 1 : 0,
                  .tag = tag,
                  .size = static_cast<std::uint32_t>(bytes),
                  .kind = wire::CellKind::eager_inline,
                  .flag = wire::CellFlag::none,
                  .mark = 0},
                 payload.data(), payload.size());
  }
  void say_context(const Communicator& comm, int tag) { say(comm, tag, some_context()); }
  void say_offer(const Communicator& comm) { say(comm, agree_tag, offer()); }
  void say_members(const Communicator& comm, int tag) {
    const std::array<PeerId, 2> members{some_number(), some_number()};
    say_bytes(comm, tag, std::as_bytes(std::span(members).first(1 + input_.below(2))));
  }

  void duplicate_later(Communicator& comm) {
    say_context(comm, nonblocking_tag + static_cast<int>(comm.nonblocking_lanes));
    Duplication duplication(comm);
    duplication.begin();
    engine_->wait_for([&] { return duplication.ready(); });
    take(duplication.make(), comm);
  }

  void take(Result<Ref<Communicator>> result, const Communicator&) {
    if (result && *result) {
      const ContextId id = (*result)->context_id();
      require(id % 2 == 0 && id > 8 && (*result)->group()->contains(0));
      for (const auto& other : made_)
        require(other->context_id() != id);
      if (made_.size() < 8 && (*result)->size() + (*result)->remote_size() > 1 && !(*result)->is_inter())
        made_.push_back(std::move(*result));
    }
    drain();
    check_world();
  }
  /// A message in the first communicator still arrives.
  void check_world() {
    std::uint32_t got = 0;
    const std::uint32_t sent = 0x1234'5678;
    require(out_.has_cell());
    out_.publish({.context = Engine::world_context,
                  .source = 0,
                  .tag = 3,
                  .size = sizeof sent,
                  .kind = wire::CellKind::eager_inline,
                  .flag = wire::CellFlag::none,
                  .mark = 0},
                 &sent, sizeof sent);
    engine_->receive(world_->context(), 0, 3, Payload::of(&got, sizeof got));
    require(got == sent);
  }
  /// Reads what the engine writes.
  void drain() {
    engine_->progress();
    const std::uint32_t ring = region_view().directory(1)[0].load();
    if (ring == 0) return;
    if (!in_.open()) in_ = RingReader(region_view().ring(ring - 1), region_view().geometry());
    while (const wire::Cell* cell = in_.front())
      wire::has_piece(cell->header.kind) ? in_.pop_piece(cell->header.size) : in_.pop();
    engine_->progress();
  }

  fuzz::Input& input_;
  std::unique_ptr<launch::Job> job_;
  std::unique_ptr<Engine> engine_;
  Ref<Communicator> world_, self_, inter_;
  std::vector<Ref<Communicator>> made_;
  RingWriter out_;
  RingReader in_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Session session(input);
  for (int steps = 0; steps < 40 && !input.empty(); ++steps)
    session.step();
  session.finish();
  return 0;
}

}  // namespace isthmus
