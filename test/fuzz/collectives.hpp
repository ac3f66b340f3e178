#pragma once

#include <list>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "coll/call/call.hpp"
#include "coll/entry/start.hpp"
#include "datatype/make/construct.hpp"
#include "datatype/op.hpp"
#include "input.hpp"
#include "members.hpp"

namespace isthmus::fuzz {

/// Where the buffers of collectives lie.
class Memory {
 public:
  virtual ~Memory() = default;
  /// So many bytes that nobody else has, until the end; null where there are no more.
  virtual std::byte* take(std::uint64_t bytes, bool is_sent) = 0;
};

/// What a program calls: blocking collectives, and others that go on beside them.
class Calls {
 public:
  Calls(Input& input, Members& members, Memory& memory) : input_(input), members_(members), memory_(memory) {}

  void call() {
    switch (input_.below(12)) {
      case 0:
        return run(coll::call::Barrier{});
      case 1:
      case 2: {
        const auto [count, type] = some_data();
        const int root = some_root();
        return run(coll::call::Bcast{take(count, *type, root == rank()), count, type, root});
      }
      case 3: {
        const auto [count, type] = some_data();
        return run(coll::call::Gather{{{send(count, *type, 1), receive(count, *type)}, some_root()}});
      }
      case 4: {
        const auto [count, type] = some_data();
        return run(coll::call::Scatter{{{send(count, *type, size()), receive(count, *type)}, some_root()}});
      }
      case 5: {
        const auto [count, type] = some_data();
        return run(coll::call::Allgather{{send(count, *type, 1), receive(count, *type)}});
      }
      case 6: {
        const auto [count, type] = some_data();
        return run(coll::call::Alltoall{{send(count, *type, size()), receive(count, *type)}});
      }
      case 7:
        return run_with_counts();
      default:
        return run_reduction();
    }
  }
  /// All that was started has ended, or its members are lost.
  void finish() {
    members_.engine().wait_for(
        [this] { return std::ranges::all_of(started_, [](const auto& each) { return each->is_done(); }); });
    started_.clear();
  }

 private:
  struct Started {
    virtual ~Started() = default;
    [[nodiscard]] virtual bool is_done() const = 0;
  };
  template <class Call>
  struct Flowing final : Started {
    Flowing(Communicator& comm, const Call& what)
        : driver(comm.engine()),
          lane(coll::Lane::nonblocking(comm, driver)),
          call(what),
          flow(coll::start(coll::Ranks(comm, lane), call)) {}
    [[nodiscard]] bool is_done() const override { return flow.is_done(); }

    coll::Driver driver;
    const coll::Lane lane;
    const Call call;
    coll::Flow flow;
  };

  template <class Call>
  void run(const Call& call) {
    if (!has_room_) return;
    if (input_.below(3) == 0 && started_.size() < 8)
      started_.push_back(std::make_unique<Flowing<Call>>(members_.comm(), call));
    else
      static_cast<void>(coll::run(call, members_.comm()));
  }
  [[nodiscard]] int size() { return members_.count(); }
  [[nodiscard]] int rank() { return members_.comm().rank(); }
  int some_root() { return static_cast<int>(input_.below(256)) % size(); }

  static const Datatype& gaps() {
    static const Ref<Datatype> type = [] {
      auto made = hvector_type(2, 3, 8, Datatype::basic(Basic::byte), Form::small);
      if (!made || !(*made)->commit()) std::abort();
      return *made;
    }();
    return *type;
  }
  std::pair<std::int64_t, const Datatype*> some_data() {
    const std::int64_t counts[]{0, 1, 3, 12, 13, 100, 256, 600, 2048, 5000, 20'000, 50'000};
    const Datatype* const types[]{&Datatype::basic(Basic::byte), &Datatype::basic(Basic::int32), &gaps()};
    const std::int64_t count = input_.pick(counts);
    return {count, input_.pick(types)};
  }
  std::byte* take(std::int64_t count, const Datatype& type, bool is_sent) {
    const auto bytes =
        count > 0 ? static_cast<std::uint64_t>((count - 1) * type.extent() + type.true_extent()) : 0;
    std::byte* const data = memory_.take(bytes, is_sent);
    has_room_ = has_room_ && (data || bytes == 0);
    return data;
  }
  coll::In send(std::int64_t count, const Datatype& type, int blocks) {
    return {take(count * blocks, type, true), count, &type};
  }
  coll::Out receive(std::int64_t count, const Datatype& type) {
    return {take(count * size(), type, false), count, &type};
  }

  /// The forms with a count for each member.
  void run_with_counts() {
    const Datatype& type = Datatype::basic(Basic::byte);
    auto& lists = lists_.emplace_back();
    int total = 0;
    for (int i = 0; i < size(); ++i) {
      lists.counts.push_back(static_cast<int>(input_.below(200)) * (input_.below(4) == 0 ? 40 : 1));
      lists.begins.push_back(total);
      total += lists.counts.back();
    }
    const int mine = lists.counts[static_cast<std::size_t>(rank())];
    const coll::OutV to{take(total, type, false), lists.counts.data(), lists.begins.data(), &type};
    const coll::InV from{take(total, type, true), lists.counts.data(), lists.begins.data(), &type};
    const coll::In own{take(mine, type, true), mine, &type};
    switch (input_.below(4)) {
      case 0:
        return run(coll::call::Gatherv{{{own, to}, some_root()}});
      case 1:
        return run(coll::call::Scatterv{{{from, {take(mine, type, false), mine, &type}}, some_root()}});
      case 2:
        return run(coll::call::Allgatherv{{own, to}});
      default:
        return run(coll::call::Alltoallv{{from, to}});
    }
  }

  void run_reduction() {
    const std::int64_t counts[]{0, 1, 2, 6, 100, 1000, 4000, 4096, 20'000, 60'000};
    const Basic types[]{Basic::int32, Basic::double_, Basic::int8};
    const OpCode codes[]{OpCode::sum, OpCode::max, OpCode::prod};
    const std::int64_t count = input_.pick(counts);
    const Datatype& type = Datatype::basic(input_.pick(types));
    const coll::Reduction what{count, &type, &Op::predefined(input_.pick(codes))};
    const unsigned which = input_.below(6);
    const std::int64_t blocks = which == 3 ? size() : 1;
    std::byte* const receive = take(count * blocks, type, false);
    const bool here = input_.below(4) == 0;
    const void* const send = here ? coll::in_place : take(count * blocks, type, true);
    switch (which) {
      case 0: {
        const int root = some_root();
        if (here && root != rank()) return;
        return run(coll::call::Reduce{{send, receive, what}, root});
      }
      case 3:
        return run(coll::call::ReduceScatterBlock{{send, receive, what}});
      case 4:
        return run(coll::call::Scan{{send, receive, what}});
      case 5:
        return run(coll::call::Exscan{{send, receive, what}});
      default:
        return run(coll::call::Allreduce{{send, receive, what}});
    }
  }

  struct Lists {
    std::vector<int> counts, begins;
  };
  Input& input_;
  Members& members_;
  Memory& memory_;
  bool has_room_ = true;
  std::list<Lists> lists_;
  std::vector<std::unique_ptr<Started>> started_;
};

}  // namespace isthmus::fuzz
