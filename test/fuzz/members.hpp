#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "channel/shm/ring_reader.hpp"
#include "channel/shm/ring_writer.hpp"
#include "coll/area/lane_area.hpp"
#include "coll/context/footing.hpp"
#include "coll/flow/lane.hpp"
#include "comm/communicator.hpp"
#include "input.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"

/// A communicator of which one member is an engine and all others do what the input says: in the memory that
/// they share for collectives, in messages, and while the engine waits for them.
namespace isthmus::fuzz {

/// A process whose memory the engine may read and write; a child that waits to be killed. `memory` is what
/// members name there.
class Victim {
 public:
  static Victim& get() {
    static Victim victim;
    return victim;
  }
  void start() {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
      ::pause();
  }
  void put_into(wire::PlaceRecord& place) const {
    place.pid = pid_;
    place.probe_nonce = probe_[0];
    place.probe_address = reinterpret_cast<std::uint64_t>(probe_.data());
  }
  [[nodiscard]] std::uint64_t memory() const { return reinterpret_cast<std::uint64_t>(memory_.data()); }

 private:
  std::array<std::uint64_t, 2> probe_{0x1357'9bdf'0246'8ace, 0};
  std::array<std::byte, 2U << 20U> memory_{};
  pid_t pid_ = 0;
};

class Members : public Polled {
 public:
  /// `self`: the engine's rank.
  Members(Input& input, std::uint32_t count, std::uint32_t self, const Settings& settings)
      : input_(input), self_(self), out_(count), in_(count), said_(count), said_in_lanes_(count) {
    auto jobs = launch::local_jobs(count, {16, 16'384}, wire::IdlePolicy::spin);
    if (!jobs) std::abort();
    job_ = std::make_unique<launch::Job>(std::move((*jobs)[self]));
    job_->in_process = false;  // as if the others were processes of their own
    auto box = launch::DescriptorBox::make();
    if (!box) std::abort();
    const int other_end = ::fcntl(box->get(), F_DUPFD_CLOEXEC, 0);
    box_ = std::make_unique<launch::DescriptorBox>(UniqueFd(other_end), (self + 1) % count);
    job_->box = std::make_shared<launch::DescriptorBox>(std::move(*box), self);
    std::vector<PeerId> all(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      all[i] = i;
      if (i != self) Victim::get().put_into(region().block(i).place);
    }
    auto engine = Engine::make(*job_, settings);
    if (!engine) std::abort();
    engine_ = std::move(*engine);
    comm_ = Communicator::make(*engine_, make_ref<Group>(std::move(all)), Engine::world_context);
    engine_->polled().add(*this);
  }
  ~Members() override {
    if (engine_) engine_->polled().remove(*this);
  }

  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] Communicator& comm() { return *comm_; }
  [[nodiscard]] int count() const { return static_cast<int>(out_.size()); }
  [[nodiscard]] bool are_lost() const { return lost_; }
  /// From now on nobody is to be waited for.
  void lose() {
    if (std::exchange(lost_, true)) return;
    region().header().heap.lock.store(wire::HeapHeader::open);
    for (std::uint32_t i = 0; i < out_.size(); ++i)
      if (i != self_) engine_->lose(i, "it is gone", false);
  }
  /// Ends communicator and engine, when all that was started has ended.
  void close() {
    comm_ = {};
    engine_->polled().remove(*this);
    engine_.reset();
  }

  /// While the engine waits: a few things that the members do, until the input has no more of them.
  unsigned poll() override {
    if (lost_) return 0;
    if (input_.empty() || ++polls_ > most_polls) {
      lose();
      return 1;
    }
    read_rings();
    for (unsigned i = input_.below(3); i < 3; ++i)
      act();
    return 1;
  }

 protected:
  /// What a member says in a line, in place of what the engine says in its own.
  virtual void speak(int /*member*/, std::span<std::byte> line, std::span<std::byte> slot) {
    input_.fill(line.first(std::min<std::size_t>(1U + input_.below(24), line.size())));
    input_.fill(slot.first(input_.below(64)));
  }
  /// Before a member answers.
  virtual void appear(coll::Presence& /*presence*/) {}
  /// Of so many answers, one says what the engine says itself. At most 256.
  unsigned repeats_one_in_ = 4;
  [[nodiscard]] Input& input() { return input_; }
  [[nodiscard]] launch::DescriptorBox& box() { return *box_; }

 private:
  static constexpr unsigned most_polls = 2000;

  const wire::RegionView& region() { return job_->region; }
  int some_member() { return static_cast<int>(input_.below(256) % out_.size()); }
  [[nodiscard]] std::optional<coll::Area> area() const {
    const auto* const footing = static_cast<const coll::Footing*>(comm_->collective_state.get());
    if (footing && footing->team()) return footing->team()->area();
    if (!team_place_) return std::nullopt;
    // Before the engine's team is complete, at whose making members meet in steps already.
    const coll::AreaLayout layout(count());
    const auto memory = job_->region.heap().at(*team_place_, layout.bytes());
    if (memory.empty() || *team_place_ % wire::cache_line != 0) return std::nullopt;
    return coll::Area(layout, memory.data());
  }
  [[nodiscard]] std::optional<coll::LaneArea> lanes() const {
    if (!lanes_place_) return std::nullopt;
    coll::LaneArea area(count());
    const auto memory = job_->region.heap().at(*lanes_place_, area.bytes());
    if (memory.empty() || *lanes_place_ % wire::cache_line != 0) return std::nullopt;
    area.put_at(memory.data());
    return area;
  }

  void act() {
    switch (input_.below(24)) {
      case 0:
      case 1:
      case 2:
        return answer(some_member(), false);
      case 3:
        return answer(some_member(), true);
      case 4:
        for (int i = 0; i < count(); ++i)
          answer(i, false);
        return;
      case 5:
        return disturb_line();
      case 6:
        return disturb_counters();
      case 7:
        return disturb_nodes();
      case 8:
      case 9:
        return answer_in_lanes(some_member());
      case 10:
        return disturb_lanes();
      case 11:
        return say_place(coll::Tag::set_up, coll::AreaLayout(count()).bytes(), team_place_);
      case 12:
        return say_place(coll::Tag::lanes, coll::LaneArea(count()).bytes(), lanes_place_);
      case 13:
        return say_something();
      case 14:
        if (input_.below(32) == 0) lose();
        return;
      default:
        for (int i = 0; i < count(); ++i) {
          answer(i, false);
          answer_in_lanes(i);
        }
    }
  }

  /// The engine's last step.
  [[nodiscard]] std::uint64_t step_of(const coll::Area& area) const {
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < coll::depth; ++i) {
      const std::uint64_t number = area.line(i, own()).sequence.load();
      if (number % coll::depth == i) last = std::max(last, number);
    }
    return last;
  }
  [[nodiscard]] int own() const { return static_cast<int>(self_); }

  /// A member goes as far as the engine is: in the same collectives, unless `other`.
  void answer(int member, bool other) {
    const auto shared = area();
    if (!shared || member == own()) return;
    std::uint64_t& said = said_[static_cast<std::size_t>(member)];
    const std::uint64_t step = step_of(*shared);
    if (step > said + coll::depth) said = step - coll::depth;
    appear(shared->presence(member));
    const unsigned how = said < step ? input_.below(repeats_one_in_) : 0;
    while (said < step) {
      ++said;
      const coll::Line& mine = shared->line(said, own());
      coll::Line& line = shared->line(said, member);
      line.call = mine.call;
      line.data = mine.data;
      std::byte* const slot = shared->slot(said, member);
      std::memcpy(slot, shared->slot(said, own()), 1024);
      if (how != 0) speak(member, line.data, {slot, coll::slot_bytes});
      if (other) line.call ^= std::uint64_t{1U + input_.below(255)} << (8 * input_.below(8));
      line.sequence.store(said);
      shared->finished(member).sequence.store(said);
    }
  }
  void disturb_line() {
    const auto shared = area();
    if (!shared) return;
    const std::uint64_t step = step_of(*shared) + input_.below(3);
    const int member = some_member();
    speak(member, shared->line(step, member).data, {shared->slot(step, member), coll::slot_bytes});
    if (input_.below(4) == 0) shared->line(step, member).sequence.store(step + input_.below(3));
  }
  std::uint64_t some_count(std::uint64_t step) {
    const std::uint64_t counts[]{step, step + 1, step + 8, 0, 1, 2, ~std::uint64_t{0}};
    return input_.below(8) != 0 ? input_.pick(counts) : input_.take<std::uint64_t>();
  }
  void disturb_counters() {
    const auto shared = area();
    if (!shared) return;
    const int member = some_member();
    const std::uint64_t step = step_of(*shared);
    switch (input_.below(4)) {
      case 0:
        return shared->finished(member).sequence.store(some_count(step));
      case 1:
        return shared->presence(member).entered.store(some_count(step));
      case 2:
        return shared->presence(member).gpu_since.store(some_count(1));
      default:
        shared->header().members.store(input_.below(40));
        shared->header().waiting_writers.store(input_.below(3));
    }
  }
  void disturb_nodes() {
    const auto shared = area();
    if (!shared || shared->nodes() == 0) return;
    coll::Node& node = shared->node(static_cast<int>(input_.below(256)) % shared->nodes());
    const unsigned parity = input_.below(2);
    switch (input_.below(4)) {
      case 0:
        node.arrived[parity].fetch_add(input_.below(17));
        return;
      case 1:
        return node.released.store(some_count(node.released.load() + 1));
      case 2:
        return node.failed.store(some_count(node.released.load()));
      default:
        input_.fill({shared->node_slot(parity, 0), input_.below(64)});
    }
  }

  // --- what does not block

  void answer_in_lanes(int member) {
    const auto shared = lanes();
    if (!shared || member == own()) return;
    shared->member(member).reaches_all.store(input_.below(8) != 0 ? 2 : input_.below(4));
    const coll::StripeMemory stripe = input_.below(4) != 0
                                          ? shared->nonblocking()
                                          : shared->persistent(input_.below(coll::persistent_stripes));
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < stripe.depth; ++i)
      last = std::max(last, stripe.line(i, own()).sequence.load() / coll::said(1, 0));
    const std::uint64_t phase = 1 + input_.below(3);
    const std::uint64_t first = last > 6 ? last - 6 : 1;
    const unsigned how = input_.below(4);
    for (std::uint64_t step = first; step <= last; ++step) {
      coll::Line& line = stripe.line(step, member);
      line.call = stripe.line(step, own()).call;
      if (how == 0) line.data = stripe.line(step, own()).data;
      if (how == 1) speak(member, line.data, {stripe.room(step, member, 100), coll::short_slot_bytes});
      if (how == 2) {
        const std::uint64_t named = Victim::get().memory() + input_.below(256);
        std::memcpy(line.data.data(), &named, sizeof named);
        std::memcpy(line.data.data() + 8, &named, sizeof named);
      }
      line.sequence.store(coll::said(step, phase));
      if (phase > 1) stripe.finished[member].sequence.store(step);
    }
  }
  void disturb_lanes() {
    const auto shared = lanes();
    if (!shared) return;
    const std::size_t bytes = coll::LaneArea(count()).control_bytes();
    std::byte* const from = reinterpret_cast<std::byte*>(&shared->header());
    const std::size_t at = input_.take<std::uint16_t>() % bytes;
    input_.fill({from + at, std::min<std::size_t>(1 + input_.below(16), bytes - at)});
  }

  // --- messages

  RingWriter& ring_from(std::uint32_t member) {
    RingWriter& out = out_[member];
    if (out.open()) return out;
    const std::uint32_t number = region().header().rings_used.fetch_add(1);
    out = RingWriter(region().ring(number), region().geometry());
    region().directory(self_)[member].store(number + 1);
    region().block(self_).connections.fetch_add(1);
    return out;
  }
  void say(std::uint32_t member, int tag, std::span<const std::byte> what) {
    if (member == self_) return;
    RingWriter& out = ring_from(member);
    if (!out.has_cell()) return;
    std::array<std::byte, wire::inline_capacity> payload{};
    std::ranges::copy(what, payload.begin());
    out.publish({.context = comm_->context_id() + 1,
                 .source = static_cast<int>(member),
                 .tag = tag,
                 .size = static_cast<std::uint32_t>(what.size()),
                 .kind = wire::CellKind::eager_inline,
                 .flag = wire::CellFlag::none,
                 .mark = 0},
                payload.data(), payload.size());
  }
  /// As who stands above the engine in a broadcast from rank 0 hands it on.
  void say_place(coll::Tag tag, std::uint64_t bytes, std::optional<std::uint64_t>& place) {
    if (self_ == 0) return;
    std::uint64_t offset = ~std::uint64_t{0};
    if (input_.below(8) != 0) {
      if (const auto taken = region().heap().allocate(bytes)) offset = *taken;
      const auto memory = region().heap().at(offset, bytes);
      if (!memory.empty() && !place)
        std::memset(memory.data(), 0, std::min<std::size_t>(memory.size(), 200'000));
    } else {
      offset = input_.take<std::uint64_t>();
    }
    if (!place) place = offset;
    say(self_ & (self_ - 1), static_cast<int>(tag), std::as_bytes(std::span(&offset, 1)));
  }
  void say_something() {
    std::array<std::byte, wire::inline_capacity> what{};
    input_.fill(what);
    const int tag = input_.below(4) != 0 ? static_cast<int>(1 + input_.below(13))
                                         : coll::nonblocking_tag + static_cast<int>(input_.below(4));
    say(input_.below(256) % static_cast<std::uint32_t>(out_.size()), tag,
        std::span(what).first(input_.below(wire::inline_capacity + 1)));
  }
  /// Reads what the engine has written, and where it says that shared memory is.
  void read_rings() {
    for (std::uint32_t member = 0; member < in_.size(); ++member) {
      RingReader& in = in_[member];
      if (member == self_) continue;
      if (!in.open()) {
        const std::uint32_t entry = region().directory(member)[self_].load();
        if (entry == 0 || entry > region().ring_capacity()) continue;
        in = RingReader(region().ring(entry - 1), region().geometry());
      }
      while (const wire::Cell* cell = in.front()) {
        if (cell->header.kind == wire::CellKind::eager_inline && cell->header.size == sizeof(std::uint64_t)) {
          std::uint64_t offset = 0;
          std::memcpy(&offset, cell->payload.data(), sizeof offset);
          if (cell->header.tag == static_cast<int>(coll::Tag::set_up)) team_place_ = offset;
          if (cell->header.tag == static_cast<int>(coll::Tag::lanes)) lanes_place_ = offset;
        }
        if (wire::has_piece(cell->header.kind))
          in.pop_piece(std::min(cell->header.size, wire::maximum_piece(region().geometry())));
        else
          in.pop();
      }
    }
  }

  Input& input_;
  const std::uint32_t self_;
  std::vector<RingWriter> out_;
  std::vector<RingReader> in_;
  std::vector<std::uint64_t> said_, said_in_lanes_;  ///< by member: the last step
  std::optional<std::uint64_t> team_place_, lanes_place_;
  std::unique_ptr<launch::Job> job_;
  std::unique_ptr<launch::DescriptorBox> box_;
  std::unique_ptr<Engine> engine_;
  Ref<Communicator> comm_;
  unsigned polls_ = 0;
  bool lost_ = false;
};

}  // namespace isthmus::fuzz
