#include "p2p/matcher.hpp"

#include <algorithm>

namespace isthmus {
namespace {

bool tag_matches(int wanted, int tag) {
  return wanted == tag || wanted == any_tag;
}

/// More than any burst that a program waits for at once; beyond it, memory goes back to the system.
constexpr std::size_t kept_messages = 1024;

}  // namespace

Request* MatchContext::match(int source, int tag) noexcept {
  RequestQueue& specific = sources_[source].posted;
  Request* found = specific.front();
  while (found && !tag_matches(found->tag, tag))
    found = RequestQueue::after(found);
  RequestQueue* queue = &specific;
  for (Request* any = posted_any_.front(); any && (!found || any->order < found->order);
       any = RequestQueue::after(any)) {
    if (!tag_matches(any->tag, tag)) continue;
    found = any;
    queue = &posted_any_;
    break;
  }
  if (found) queue->remove(found);
  return found;
}

UnexpectedMessage* MatchContext::find(int source, int tag) const noexcept {
  if (source == any_source) {
    UnexpectedMessage* message = unexpected_.front();
    while (message && !tag_matches(tag, message->tag))
      message = message->by_arrival.next;
    return message;
  }
  UnexpectedMessage* message = sources_[source].unexpected.front();
  while (message && !tag_matches(tag, message->tag))
    message = message->by_source.next;
  return message;
}

bool MatchContext::has_process(PeerId process) const noexcept {
  return processes_.empty() || std::ranges::find(processes_, process) != processes_.end();
}

std::vector<Request*> MatchContext::lose(PeerId process) {
  std::vector<Request*> orphans;
  const auto take_all = [&orphans](RequestQueue& queue) {
    while (Request* receive = queue.front()) {
      queue.remove(receive);
      orphans.push_back(receive);
    }
  };
  any_lost_ = true;
  take_all(posted_any_);
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    const bool is_process = source < processes_.size() && processes_[source] == process;
    if (is_process) sources_[source].lost = true;
    if (is_process || together_ || processes_.empty()) take_all(sources_[source].posted);
  }
  return orphans;
}

Matcher::~Matcher() {
  for (auto& [id, context] : contexts_)
    while (UnexpectedMessage* message = context->first_unexpected()) {
      context->remove(message);
      delete message;
    }
}

MatchContext& Matcher::lookup(ContextId id) {
  auto& slot = contexts_[id];
  if (!slot) slot = std::make_unique<MatchContext>(id, default_sources_);
  last_ = slot.get();
  return *slot;
}

MatchContext& Matcher::open(ContextId id, std::uint32_t sources) {
  MatchContext& context = lookup(id);
  context.resize(std::max(sources, context.sources()));
  return context;
}

void Matcher::close(ContextId id) {
  if (last_ && last_->id() == id) last_ = nullptr;
  contexts_.erase(id);
}

void Matcher::give_back(UnexpectedMessage* message) {
  std::unique_ptr<UnexpectedMessage> owned(message);
  if (free_.size() >= kept_messages) return;
  owned->large.reset();
  owned->data = nullptr;
  owned->local_send = nullptr;
  owned->acknowledge = false;
  free_.push_back(std::move(owned));
}

}  // namespace isthmus
