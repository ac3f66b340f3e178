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

}  // namespace

std::string Engine::explain(ExplainSetting form) {
  const ExplainParts parts{.links = links_,
                           .access = access_,
                           .memories = memories_,
                           .plans = plans_,
                           .network = network_.get(),
                           .gpu = gpu_.made()};
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

/// At rank 0, calls `take` with what each rank has to say, in their order.
template <class Take>
void Engine::gather(const std::string& mine, const Take& take) {
  MatchContext& context = open_context(internal_context, links_.size());
  if (links_.rank() != 0) {
    if (!is_lost(0))
      send({.peer = 0,
            .context = internal_context,
            .source = static_cast<int>(links_.rank()),
            .tag = report_tag},
           Payload::of(mine.data(), mine.size()));
    return;
  }
  take(PeerId{0}, mine);
  for (PeerId id = 1; id < links_.size(); ++id) {
    const UnexpectedMessage* message = nullptr;
    wait_for(
        [&] { return (message = context.find(static_cast<int>(id), report_tag)) != nullptr || is_lost(id); });
    if (!message) continue;  // it has died
    std::string text(std::min(message->bytes, longest_report), '\0');
    receive(context, static_cast<int>(id), report_tag, Payload::of(text.data(), text.size()));
    take(id, text);
  }
}

bool Engine::is_lost(PeerId id) const noexcept {
  return std::ranges::find(lost_, id) != lost_.end();
}

/// Rank 0 says the same to all others, who wait for it; false where it has died.
bool Engine::follow_rank_0(int tag) {
  if (links_.rank() == 0) {
    for (PeerId id = 1; id < links_.size(); ++id)
      if (!is_lost(id)) send({.peer = id, .context = internal_context, .source = 0, .tag = tag}, nothing);
    return true;
  }
  MatchContext& context = open_context(internal_context, links_.size());
  wait_for([&] { return context.find(0, tag) != nullptr || is_lost(0); });
  if (!context.find(0, tag)) return false;
  receive(context, 0, tag, nothing);
  return true;
}

/// Ranks other than 0 wait until that has made its own report: theirs would be counted in it.
void Engine::await_turn_to_report() {
  // The plans of pairs are known once both have started.
  wait_for([this] {
    return std::ranges::all_of(links_.job().members, [this](PeerId id) {
      return access_.can_probe(links_.peer(id)) || is_lost(id);
    });
  });
  if (links_.rank() == 0 || !follow_rank_0(your_turn)) return;
  Peer& first = links_.peer(0);
  first.traffic.forget_received(first.is_local() ? Protocol::eager_inline : Protocol::network_eager);
}

/// Every rank tells rank 0, which prints, over messages as any others: these are in no report.
void Engine::report() {
  const ExplainSetting form = links_.settings().explain;
  const bool is_short = form == ExplainSetting::summary || form == ExplainSetting::picture;
  await_turn_to_report();
  const std::string counted = is_short ? explain(ExplainSetting::summary) : std::string();
  const std::string mine = form != ExplainSetting::summary ? explain(form) : std::string();
  if (links_.rank() == 0) follow_rank_0(your_turn);
  if (is_short) report_summary(counted);
  if (form != ExplainSetting::summary) report_ranks(mine, form == ExplainSetting::full);
  // What a rank sends when it goes on is in nobody's report.
  follow_rank_0(all_have_told);
}

void Engine::report_summary(const std::string& mine) {
  JobTally job(links_.size());
  gather(mine, [&](PeerId rank, const std::string& packed) { job.add(rank, packed); });
  if (links_.rank() == 0)
    print(report_head(links_) + job.text() +
          "    each pair: isthmus explain --full; a matrix of all: isthmus explain --picture FILE.svg\n");
}

void Engine::report_ranks(const std::string& mine, bool is_text) {
  std::string whole = is_text ? report_head(links_) : report_head_json(links_);
  gather(mine, [&](PeerId, const std::string& text) {
    if (!is_text && whole.ends_with('}')) whole += ',';
    whole += text;
  });
  if (links_.rank() == 0) print(is_text ? whole : whole + "]}\n");
}

}  // namespace isthmus
