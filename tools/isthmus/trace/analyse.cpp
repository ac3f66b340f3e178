#include <algorithm>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include "route/plan.hpp"
#include "trace/model.hpp"

namespace isthmus::tool::trace {
namespace {

/// Which of a job's calls a thread of a rank is in.
class CallFinder {
 public:
  explicit CallFinder(Rank& rank) {
    for (Call& call : rank.calls)
      if (call.is_outermost) by_thread_[call.thread].push_back(&call);
    for (auto& calls : by_thread_ | std::views::values)
      std::ranges::stable_sort(calls, {}, &Call::begin);
  }
  /// Null: in none at that time.
  [[nodiscard]] Call* at(std::uint32_t thread, std::int64_t time) const {
    const auto found = by_thread_.find(thread);
    if (found == by_thread_.end()) return nullptr;
    const auto after = std::ranges::upper_bound(found->second, time, {}, &Call::begin);
    if (after == found->second.begin()) return nullptr;
    Call* const call = *std::prev(after);
    return call->end >= time ? call : nullptr;
  }
  /// The last call but a few that had ended at that time in which a thread looked for a message and waited
  /// for it; null: none.
  [[nodiscard]] Call* probe_before(std::uint32_t thread, std::int64_t time) const {
    constexpr int most = 4;  // what a program asks of a status comes between
    const auto found = by_thread_.find(thread);
    if (found == by_thread_.end()) return nullptr;
    auto call = std::ranges::upper_bound(found->second, time, {}, &Call::begin);
    for (int looked_at = 0; looked_at < most && call != found->second.begin(); ++looked_at) {
      --call;
      if ((*call)->end <= time && ((*call)->name == "MPI_Probe" || (*call)->name == "MPI_Mprobe"))
        return *call;
    }
    return nullptr;
  }

 private:
  std::map<std::uint32_t, std::vector<Call*>> by_thread_;
};

bool waits_for_requests(const Call& call) {
  return call.name.starts_with("MPI_Wait") || call.name.starts_with("MPI_Sendrecv");
}
bool is_receiving(const Call& call) {
  return call.name.starts_with("MPI_Recv") || call.name.starts_with("MPI_Mrecv") || waits_for_requests(call);
}
bool is_sending(const Call& call) {
  return call.name == "MPI_Send" || call.name == "MPI_Ssend" || call.name == "MPI_Rsend" ||
         call.name == "MPI_Send_c" || call.name == "MPI_Ssend_c" || call.name == "MPI_Rsend_c" ||
         waits_for_requests(call);
}

/// Of several that a call waits for, the one that came last is what kept it.
void note_wait(Call& call, std::int64_t until, std::uint32_t whom, const char* why) {
  until = std::min(until, call.end);
  if (until <= call.waits_until) return;
  call.waits_until = until;
  call.waits_for = static_cast<std::int32_t>(whom);
  call.why = why;
}

void move_times(Rank& rank, std::int64_t by) {
  const auto move = [by](std::int64_t& time) {
    if (time != unknown_time) time += by;
  };
  for (Call& call : rank.calls)
    for (std::int64_t* time : {&call.begin, &call.end, &call.waits_until})
      *time += by;
  for (Collective& collective : rank.collectives)
    collective.begin += by;
  for (Send& send : rank.sends)
    move(send.begin), move(send.end);
  for (Receive& receive : rank.receives)
    move(receive.begin), move(receive.carried), move(receive.end);
  rank.first += by;
  rank.last += by;
}

/// By how much one kernel's clock is behind another's, at least and at most, by the messages between them:
/// none has come before it was sent.
struct Bounds {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] bool has_both() const noexcept {
    return least != std::numeric_limits<std::int64_t>::min() &&
           most != std::numeric_limits<std::int64_t>::max();
  }
  [[nodiscard]] std::int64_t middle() const noexcept { return least + (most - least) / 2; }
  /// Clocks that drift apart make `least` the larger one.
  [[nodiscard]] std::int64_t error() const noexcept { return std::abs(most - least) / 2; }
};

/// The kernels of a job, by number.
class Kernels {
 public:
  explicit Kernels(const Job& job) {
    for (const Rank& rank : job.ranks) {
      const auto known = std::ranges::find(boots_, rank.boot);
      of_.push_back(static_cast<std::size_t>(known - boots_.begin()));
      if (known == boots_.end()) boots_.push_back(rank.boot);
    }
  }
  [[nodiscard]] std::size_t count() const noexcept { return boots_.size(); }
  [[nodiscard]] std::size_t of(std::size_t rank) const noexcept { return of_[rank]; }

 private:
  std::vector<std::string> boots_;
  std::vector<std::size_t> of_;  ///< by rank
};

/// For each two kernels, the lower number first.
std::map<std::pair<std::size_t, std::size_t>, Bounds> bounds_of(const Job& job, const Kernels& kernels) {
  std::map<std::pair<std::size_t, std::size_t>, Bounds> all;
  for (const Message& message : job.messages) {
    if (message.send == nowhere || message.receive == nowhere) continue;
    const std::size_t from = kernels.of(message.from_rank);
    const std::size_t to = kernels.of(message.to_rank);
    const std::int64_t sent = job.ranks[message.from_rank].sends[message.send].begin;
    const std::int64_t come = job.ranks[message.to_rank].receives[message.receive].end;
    if (from == to || come == unknown_time) continue;
    Bounds& bounds = all[std::minmax(from, to)];
    if (from < to)
      bounds.least = std::max(bounds.least, sent - come);
    else
      bounds.most = std::min(bounds.most, come - sent);
  }
  return all;
}

/// Puts all ranks on the clock of the first one's kernel: from kernel to kernel, where messages went both
/// ways, the surest first; else by the time of day. To be called with the messages paired.
void align(Job& job) {
  const Kernels kernels(job);
  job.kernels = static_cast<std::uint32_t>(kernels.count());
  if (kernels.count() == 1) return;
  struct Place {
    std::int64_t behind = 0, error = 0;
  };
  const auto all = bounds_of(job, kernels);
  std::map<std::size_t, Place> placed{{0, {}}};
  for (;;) {
    std::optional<std::pair<std::size_t, Place>> next;
    for (const auto& [pair, bounds] : all) {
      const bool is_first_placed = placed.contains(pair.first);
      if (!bounds.has_both() || is_first_placed == placed.contains(pair.second)) continue;
      const Place& known = placed.at(is_first_placed ? pair.first : pair.second);
      const Place found{known.behind + (is_first_placed ? bounds.middle() : -bounds.middle()),
                        known.error + bounds.error()};
      if (!next || found.error < next->second.error)
        next = {is_first_placed ? pair.second : pair.first, found};
    }
    if (!next) break;
    placed.insert(*next);
  }
  const std::int64_t ahead = job.ranks[0].realtime_ahead;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    Rank& rank = job.ranks[r];
    if (const auto found = placed.find(kernels.of(r)); found != placed.end()) {
      move_times(rank, found->second.behind);
      rank.clock_error = found->second.error;
      job.clock_error = std::max(job.clock_error, rank.clock_error);
    } else {
      move_times(rank, rank.realtime_ahead - ahead);
      job.is_aligned_roughly = true;
    }
  }
}

/// The n-th send of a process to another on a context with a tag is what the n-th receive there got.
void pair(Job& job) {
  using Key = std::tuple<std::uint64_t, std::int32_t, std::int32_t, std::int32_t>;
  std::map<Key, std::deque<Message>> sent;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const Rank& rank = job.ranks[r];
    for (std::size_t i = 0; i < rank.sends.size(); ++i) {
      const Send& send = rank.sends[i];
      if (send.is_cancelled) continue;
      const Key key{send.context, static_cast<std::int32_t>(rank.rank), send.to, send.tag};
      sent[key].push_back({.from_rank = r, .send = i});
    }
  }
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const Rank& rank = job.ranks[r];
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < rank.receives.size(); ++i)
      if (rank.receives[i].is_matched) order.push_back(i);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return rank.receives[i].order; });
    for (const std::size_t i : order) {
      const Receive& receive = rank.receives[i];
      const auto found =
          sent.find({receive.context, receive.from, static_cast<std::int32_t>(rank.rank), receive.tag});
      Message message;
      if (found != sent.end() && !found->second.empty()) {
        message = found->second.front();
        found->second.pop_front();
      }
      message.to_rank = r;
      message.receive = i;
      job.messages.push_back(message);
    }
  }
  for (const auto& left : sent | std::views::values)
    job.messages.insert(job.messages.end(), left.begin(), left.end());
}

/// Which messages of collectives tell whom a member waited for: those of neighbours. In other collectives a
/// message may be late because its sender waited itself.
class NeighbourMessages {
 public:
  explicit NeighbourMessages(const Rank& rank) : rank_(rank) {
    for (const Collective& each : rank.collectives)
      if (each.what.needs == isthmus::trace::Needs::neighbours)
        known_.emplace(each.what.context + 1, each.what.tag);
  }
  [[nodiscard]] bool belong_to(const Call& call, std::uint64_t context, std::int32_t tag) const {
    if (call.collective == nowhere) return waits_for_requests(call) && known_.contains({context, tag});
    // A blocking one, which has the thread for itself.
    const isthmus::trace::Collective& what = rank_.collectives[call.collective].what;
    return what.needs == isthmus::trace::Needs::neighbours && context == what.context + 1;
  }

 private:
  const Rank& rank_;
  std::set<std::pair<std::uint64_t, std::int32_t>> known_;  ///< context and tag of those that do not block
};

/// What a message between two ranks says about why their calls took long.
class MessageBlame {
 public:
  explicit MessageBlame(Job& job) : job_(job) {
    for (Rank& rank : job.ranks) {
      calls_.emplace_back(rank);
      neighbours_.emplace_back(rank);
    }
  }

  void look_at(const Message& message) {
    const Send* const send =
        message.send != nowhere ? &job_.ranks[message.from_rank].sends[message.send] : nullptr;
    const Receive* const receive =
        message.receive != nowhere ? &job_.ranks[message.to_rank].receives[message.receive] : nullptr;
    if (send) look_at_sender(message, *send, receive);
    if (receive) look_at_receiver(message, send, *receive);
  }

  /// What a rank was still waiting for when its file ended.
  void look_at_open(std::size_t rank) {
    for (const Receive& receive : job_.ranks[rank].receives) {
      if (receive.end != unknown_time || receive.from < 0) continue;
      Call* const call = calls_[rank].at(receive.thread, job_.ranks[rank].last);
      if (!call || call->has_ended) continue;
      if (const char* const why =
              reason(rank, *call, receive.context, receive.tag, is_receiving, "late sender"))
        note_wait(*call, call->end, static_cast<std::uint32_t>(receive.from), why);
    }
  }

 private:
  void look_at_sender(const Message& message, const Send& send, const Receive* receive) {
    if (Call* const call = calls_[message.from_rank].at(send.thread, send.begin)) call->moves_data = true;
    Call* const call =
        send.end != unknown_time ? calls_[message.from_rank].at(send.thread, send.end) : nullptr;
    if (!call) return;
    const char* const why =
        reason(message.from_rank, *call, send.context, send.tag, is_sending, "late receiver");
    if (!why) return;
    call->moves_data = true;
    if (receive && receive->begin > call->begin)
      note_wait(*call, std::min(receive->begin, send.end), job_.ranks[message.to_rank].rank, why);
  }

  void look_at_receiver(const Message& message, const Send* send, const Receive& receive) {
    if (send)
      if (Call* const probe = calls_[message.to_rank].probe_before(receive.thread, receive.begin))
        if (send->begin > probe->begin && send->begin <= probe->end)
          note_wait(*probe, send->begin, job_.ranks[message.from_rank].rank, "late sender");
    if (receive.end == unknown_time) return;
    Call* const call = calls_[message.to_rank].at(receive.thread, receive.end);
    if (!call) return;
    const char* const why =
        reason(message.to_rank, *call, receive.context, receive.tag, is_receiving, "late sender");
    if (!why) return;
    call->moves_data = true;
    if (send && send->begin > call->begin)
      note_wait(*call, std::min(send->begin, receive.end), job_.ranks[message.from_rank].rank, why);
  }

  /// Why the call has waited where the other end of the message came late; null: it does not wait for it.
  const char* reason(std::size_t rank, const Call& call, std::uint64_t context, std::int32_t tag,
                     bool (*waits)(const Call&), const char* why) {
    const auto [known, is_new] = inner_.try_emplace(context);
    if (is_new) known->second = is_inner(job_, context);
    if (known->second) return neighbours_[rank].belong_to(call, context, tag) ? "late neighbour" : nullptr;
    return waits(call) ? why : nullptr;
  }

  Job& job_;
  std::vector<CallFinder> calls_;
  std::vector<NeighbourMessages> neighbours_;
  std::map<std::uint64_t, bool> inner_;  ///< contexts: whether messages there are collectives'
};

void blame_for_messages(Job& job) {
  MessageBlame blame(job);
  for (const Message& message : job.messages)
    blame.look_at(message);
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    blame.look_at_open(r);
}

/// A member of a collective: in `Job::ranks`, and in `Rank::collectives`.
struct Member {
  std::uint32_t rank;
  std::int64_t begin;
  std::int32_t member;
};

/// Whom `own` has needed and that came last; null: nobody.
const Member* last_needed(const std::vector<Member>& members, const Member& own,
                          const isthmus::trace::Collective& what) {
  using isthmus::trace::Needs;
  const bool is_root = what.root == static_cast<std::int32_t>(own.rank);
  const auto is_needed = [&](const Member& other) {
    if (other.rank == own.rank) return false;
    switch (what.needs) {
      case Needs::all:
        return true;
      case Needs::root:
        return !is_root && what.root == static_cast<std::int32_t>(other.rank);
      case Needs::for_root:
        return is_root;
      case Needs::before:
        return other.member < own.member;
      case Needs::neighbours:
        return false;  // by its messages
    }
    return false;
  };
  const Member* last = nullptr;
  for (const Member& other : members)
    if (is_needed(other) && (!last || other.begin > last->begin)) last = &other;
  return last;
}

void blame_for_collectives(Job& job) {
  using Key = std::tuple<std::uint64_t, isthmus::trace::Form, std::uint64_t, std::uint64_t>;
  const auto key_of = [](const Collective& each) {
    return Key{each.what.context, each.what.form, each.what.number, each.start};
  };
  std::map<Key, std::vector<Member>> instances;
  for (const Rank& rank : job.ranks)
    for (const Collective& each : rank.collectives)
      instances[key_of(each)].push_back({rank.rank, each.begin, each.what.member});
  for (Rank& rank : job.ranks)
    for (const Collective& each : rank.collectives) {
      if (each.call == nowhere) continue;
      Call& call = rank.calls[each.call];
      call.moves_data = true;
      const bool is_wait = each.what.form == isthmus::trace::Form::blocking || waits_for_requests(call);
      if (!call.is_outermost || !is_wait) continue;
      const Member own{rank.rank, each.begin, each.what.member};
      if (const Member* const last = last_needed(instances[key_of(each)], own, each.what))
        note_wait(call, last->begin, last->rank,
                  each.what.needs == isthmus::trace::Needs::root ? "late root" : "came last");
    }
}

}  // namespace

std::expected<Job, std::string> analyse(std::vector<Rank> ranks) {
  if (ranks.empty()) return std::unexpected("no rank has written anything");
  std::ranges::sort(ranks, {}, &Rank::rank);
  Job job{.size = ranks[0].size};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].size != job.size) return std::unexpected("the files are of several jobs");
    if (i > 0 && ranks[i].rank == ranks[i - 1].rank)
      return std::unexpected("two files are of rank " + std::to_string(ranks[i].rank));
  }
  job.ranks = std::move(ranks);
  pair(job);
  align(job);
  blame_for_messages(job);
  blame_for_collectives(job);
  return job;
}

std::string name_of_comm(const Job& job, std::uint64_t context) {
  for (const Rank& rank : job.ranks)
    if (const auto found = rank.comms.find(context); found != rank.comms.end() && !found->second.name.empty())
      return found->second.name;
  if (is_inner(job, context)) return name_of_comm(job, context - 1);
  return "communicator " + std::to_string(context);
}

bool is_inner(const Job& job, std::uint64_t context) {
  if (context == 0) return false;
  const auto knows = [&](std::uint64_t id) {
    return std::ranges::any_of(job.ranks, [&](const Rank& rank) { return rank.comms.contains(id); });
  };
  return !knows(context) && knows(context - 1);
}

std::string name_of_way(std::uint16_t way) {
  return way < protocol_count ? std::string(name_of(static_cast<Protocol>(way))) : "not known";
}

Carrier carrier_of(std::uint16_t way) {
  switch (static_cast<Protocol>(way)) {
    case Protocol::gpu_courier:
      return Carrier::courier;
    case Protocol::network_chunks:
    case Protocol::network_gpu:
    case Protocol::gpu_push:
    case Protocol::gpu_pull:
    case Protocol::gpu_staged:
    case Protocol::gpu_bounce:
    case Protocol::gpu_loopback:
      return Carrier::gpu;
    default:
      return Carrier::processor;
  }
}

}  // namespace isthmus::tool::trace
