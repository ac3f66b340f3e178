// How the reports of all ranks come together.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "p2p/engine.hpp"
#include "p2p/explain/reports.hpp"
#include "p2p/explain/words.hpp"

namespace isthmus {
namespace {

/// More than a rank with 16,384 different peers has to say.
constexpr std::uint64_t longest_report = 64 << 20;

/// Tags of messages on `internal_context`.
constexpr int report_tag = 0;
constexpr int your_turn = 1;
constexpr int all_have_told = 2;
constexpr int echo = 3;  ///< comes back as it is

/// What is sent to and fro to see what short messages take. The middle one of so many counts.
constexpr int echoes = 21;
constexpr std::uint64_t shortest_echo = 8;
constexpr std::uint64_t longest_echo = 8192;

const Payload nothing = Payload::of(static_cast<const void*>(nullptr), std::uint64_t{0});

void print(const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const auto n = ::write(STDERR_FILENO, text.data() + written, text.size() - written);
    if (n <= 0) return;
    written += static_cast<std::size_t>(n);
  }
}

std::string text_of(const ExplainParts& parts, ExplainSetting form) {
  switch (form) {
    case ExplainSetting::off:
      return {};
    case ExplainSetting::summary:
      return tally(parts).packed();
    case ExplainSetting::full:
      return full_report(parts);
    case ExplainSetting::picture:
    case ExplainSetting::json:
      return json_report(parts);
  }
  return {};
}

/// The ranks of a job that tell rank 0, over messages as any others: these are in no report.
class Reporters {
 public:
  Reporters(Engine& engine, const ExplainParts& parts) : engine_(engine), parts_(parts) {}
  void report();

 private:
  [[nodiscard]] JobTally gather_tally(const std::string& mine);
  [[nodiscard]] std::string gather_ranks(const std::string& mine, bool is_text);
  void print_summary(JobTally& job, const std::vector<WayEstimate>& estimated) const;
  bool follow_rank_0(int tag);
  void send_back(MatchContext& context);
  [[nodiscard]] double one_way(PeerId id, std::uint64_t bytes);
  [[nodiscard]] WayEstimate estimate(Protocol way, PeerId id, std::uint64_t from, std::uint64_t to);
  [[nodiscard]] std::vector<WayEstimate> estimates();
  void await_turn();
  template <class Take>
  void gather(const std::string& mine, const Take& take);

  Engine& engine_;
  ExplainParts parts_;
};

/// At rank 0, calls `take` with what each rank has to say, in their order.
template <class Take>
void Reporters::gather(const std::string& mine, const Take& take) {
  MatchContext& context = engine_.open_context(Engine::internal_context, engine_.size());
  if (engine_.rank() != 0) {
    if (!engine_.has_lost(0))
      engine_.send({.peer = 0,
                    .context = Engine::internal_context,
                    .source = static_cast<int>(engine_.rank()),
                    .tag = report_tag},
                   Payload::of(mine.data(), mine.size()));
    return;
  }
  take(PeerId{0}, mine);
  for (PeerId id = 1; id < engine_.size(); ++id) {
    const UnexpectedMessage* message = nullptr;
    engine_.wait_for([&] {
      return (message = context.find(static_cast<int>(id), report_tag)) != nullptr || engine_.has_lost(id);
    });
    if (!message) continue;  // it has died
    std::string text(std::min(message->bytes, longest_report), '\0');
    engine_.receive(context, static_cast<int>(id), report_tag, Payload::of(text.data(), text.size()));
    take(id, text);
  }
}

/// Rank 0 says the same to all others, who wait for it; false where it has died.
bool Reporters::follow_rank_0(int tag) {
  if (engine_.rank() == 0) {
    for (PeerId id = 1; id < engine_.size(); ++id)
      if (!engine_.has_lost(id))
        engine_.send({.peer = id, .context = Engine::internal_context, .source = 0, .tag = tag}, nothing);
    return true;
  }
  MatchContext& context = engine_.open_context(Engine::internal_context, engine_.size());
  do {
    engine_.wait_for([&] {
      return context.find(0, tag) != nullptr || context.find(0, echo) != nullptr || engine_.has_lost(0);
    });
    if (context.find(0, echo)) send_back(context);
  } while (!context.find(0, tag) && !engine_.has_lost(0));
  if (!context.find(0, tag)) return false;
  engine_.receive(context, 0, tag, nothing);
  return true;
}

/// What rank 0 wants to see how long it takes.
void Reporters::send_back(MatchContext& context) {
  std::array<std::byte, longest_echo> bytes;
  const Status status = engine_.receive(context, 0, echo, Payload::of(bytes.data(), bytes.size()));
  if (engine_.has_lost(0)) return;
  engine_.send({.peer = 0,
                .context = Engine::internal_context,
                .source = static_cast<int>(engine_.rank()),
                .tag = echo},
               Payload::of(bytes.data(), status.bytes));
}

/// Microseconds of a message of so many bytes; 0 where the peer has died.
double Reporters::one_way(PeerId id, std::uint64_t bytes) {
  using Clock = std::chrono::steady_clock;
  MatchContext& context = engine_.open_context(Engine::internal_context, engine_.size());
  std::array<std::byte, longest_echo> data{};
  std::array<double, echoes> times{};
  for (double& time : times) {
    const auto began = Clock::now();
    engine_.send({.peer = id, .context = Engine::internal_context, .source = 0, .tag = echo},
                 Payload::of(data.data(), bytes));
    engine_.wait_for(
        [&] { return context.find(static_cast<int>(id), echo) != nullptr || engine_.has_lost(id); });
    if (!context.find(static_cast<int>(id), echo)) return 0;
    engine_.receive(context, static_cast<int>(id), echo, Payload::of(data.data(), data.size()));
    time = std::chrono::duration<double, std::micro>(Clock::now() - began).count() / 2;
  }
  std::ranges::nth_element(times, times.begin() + echoes / 2);
  return times[echoes / 2];
}

/// The line through what messages of two lengths take.
WayEstimate Reporters::estimate(Protocol way, PeerId id, std::uint64_t from, std::uint64_t to) {
  const double shorter = one_way(id, from);
  const double longer = to > from ? one_way(id, to) : shorter;
  const double per_byte = to > from ? std::max(0.0, longer - shorter) / static_cast<double>(to - from) : 0;
  return {.way = full_name_of(way),
          .microseconds = std::max(0.0, shorter - per_byte * static_cast<double>(from)),
          .per_byte = per_byte};
}

/// What messages take that come with their envelope, from rank 0 to the first of its host and of another one.
std::vector<WayEstimate> Reporters::estimates() {
  std::vector<WayEstimate> all;
  bool is_near_known = false;
  bool is_far_known = false;
  for (PeerId id = 1; id < engine_.size() && !(is_near_known && is_far_known); ++id) {
    const Peer& peer = parts_.links.peer(id);
    if (engine_.has_lost(id)) continue;
    bool& is_known = peer.is_local() ? is_near_known : is_far_known;
    if (std::exchange(is_known, true)) continue;
    const std::uint64_t limit = peer.is_local() ? peer.eager_limit : peer.network_limit;
    const std::uint64_t longest = std::clamp(limit, shortest_echo, longest_echo);
    if (!peer.is_local()) {
      all.push_back(estimate(Protocol::network_eager, id, shortest_echo, longest));
      continue;
    }
    all.push_back(estimate(Protocol::eager_inline, id, shortest_echo, shortest_echo));
    constexpr std::uint64_t least = 2 * wire::inline_capacity;
    if (longest >= least) all.push_back(estimate(Protocol::eager, id, least, longest));
  }
  return all;
}

/// Ranks other than 0 wait until that has made its own report: theirs would be counted in it.
void Reporters::await_turn() {
  // The plans of pairs are known once both have started.
  engine_.wait_for([this] {
    return std::ranges::all_of(parts_.links.job().members, [this](PeerId id) {
      return parts_.access.can_probe(parts_.links.peer(id)) || engine_.has_lost(id);
    });
  });
  if (engine_.rank() == 0 || !follow_rank_0(your_turn)) return;
  Peer& first = parts_.links.peer(0);
  first.traffic.forget_received(first.is_local() ? Protocol::eager_inline : Protocol::network_eager);
}

void Reporters::report() {
  const ExplainSetting form = parts_.links.settings().explain;
  const bool is_short = form == ExplainSetting::summary || form == ExplainSetting::picture;
  await_turn();
  const std::string counted = is_short ? text_of(parts_, ExplainSetting::summary) : std::string();
  const std::string mine = form != ExplainSetting::summary ? text_of(parts_, form) : std::string();
  if (engine_.rank() == 0) follow_rank_0(your_turn);
  std::optional<JobTally> job;
  if (is_short) job = gather_tally(counted);
  std::string ranks;
  if (form != ExplainSetting::summary) ranks = gather_ranks(mine, form == ExplainSetting::full);
  if (engine_.rank() == 0) {
    // Now that all have told, what is sent is in no report.
    const auto estimated = form == ExplainSetting::full ? std::vector<WayEstimate>() : estimates();
    if (job) print_summary(*job, estimated);
    if (!ranks.empty())
      print(form == ExplainSetting::full ? ranks : ranks + report_tail_json(estimated) + "\n");
  }
  // What a rank sends when it goes on is in nobody's report.
  follow_rank_0(all_have_told);
}

JobTally Reporters::gather_tally(const std::string& mine) {
  JobTally job(engine_.size());
  gather(mine, [&](PeerId rank, const std::string& packed) { job.add(rank, packed); });
  return job;
}

void Reporters::print_summary(JobTally& job, const std::vector<WayEstimate>& estimated) const {
  job.estimate(estimated);
  print(report_head(parts_.links) + job.text() +
        "    each pair: isthmus explain --full; a matrix of all: isthmus explain --picture FILE.svg\n");
}

std::string Reporters::gather_ranks(const std::string& mine, bool is_text) {
  std::string whole = is_text ? report_head(parts_.links) : report_head_json(parts_.links);
  gather(mine, [&](PeerId, const std::string& text) {
    if (!is_text && whole.ends_with('}')) whole += ',';
    whole += text;
  });
  return whole;
}

}  // namespace

ExplainParts Engine::parts() {
  return {.links = links_,
          .access = access_,
          .memories = memories_,
          .plans = plans_,
          .eager = eager_plans_,
          .calls = call_reports_,
          .network = network_.get(),
          .gpu = gpu_.made()};
}

std::string Engine::explain(ExplainSetting form) {
  return text_of(parts(), form);
}

void Engine::report() {
  Reporters(*this, parts()).report();
}

}  // namespace isthmus
