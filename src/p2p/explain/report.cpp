// How the reports of all ranks come together.
#include <unistd.h>

#include <algorithm>
#include <string>

#include "p2p/engine.hpp"
#include "p2p/explain/reports.hpp"

namespace isthmus {
namespace {

/// More than a rank with 16,384 different peers has to say.
constexpr std::uint64_t longest_report = 64 << 20;

/// Tags of messages on `internal_context`.
constexpr int report_tag = 0;
constexpr int your_turn = 1;
constexpr int all_have_told = 2;

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
  void report_summary(const std::string& mine);
  void report_ranks(const std::string& mine, bool is_text);
  bool follow_rank_0(int tag);
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
  engine_.wait_for([&] { return context.find(0, tag) != nullptr || engine_.has_lost(0); });
  if (!context.find(0, tag)) return false;
  engine_.receive(context, 0, tag, nothing);
  return true;
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
  if (is_short) report_summary(counted);
  if (form != ExplainSetting::summary) report_ranks(mine, form == ExplainSetting::full);
  // What a rank sends when it goes on is in nobody's report.
  follow_rank_0(all_have_told);
}

void Reporters::report_summary(const std::string& mine) {
  JobTally job(engine_.size());
  gather(mine, [&](PeerId rank, const std::string& packed) { job.add(rank, packed); });
  if (engine_.rank() == 0)
    print(report_head(parts_.links) + job.text() +
          "    each pair: isthmus explain --full; a matrix of all: isthmus explain --picture FILE.svg\n");
}

void Reporters::report_ranks(const std::string& mine, bool is_text) {
  std::string whole = is_text ? report_head(parts_.links) : report_head_json(parts_.links);
  gather(mine, [&](PeerId, const std::string& text) {
    if (!is_text && whole.ends_with('}')) whole += ',';
    whole += text;
  });
  if (engine_.rank() == 0) print(is_text ? whole : whole + "]}\n");
}

}  // namespace

ExplainParts Engine::parts() {
  return {.links = links_,
          .access = access_,
          .memories = memories_,
          .plans = plans_,
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
