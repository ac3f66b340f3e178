#include "p2p/message/matcher.hpp"

#include <algorithm>

#include "p2p/message/held_up.hpp"

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
    if (found->complete) [[unlikely]]
      resume(*found);
    break;
  }
  if (found) queue->remove(found);
  return found;
}

Request* MatchContext::would_match(int source, int tag) const noexcept {
  const auto first = [tag](Request* request) {
    while (request && !tag_matches(request->tag, tag))
      request = RequestQueue::after(request);
    return request;
  };
  Request* const specific = first(sources_[source].posted.front());
  Request* const any = first(posted_any_.front());
  if (!specific || !any) return specific ? specific : any;
  return any->order < specific->order ? any : specific;
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

bool MatchContext::may_come_from(int source, PeerId process) const noexcept {
  if (source == any_source || processes_.empty()) return has_process(process);
  return static_cast<std::size_t>(source) < processes_.size() && processes_[source] == process;
}

std::vector<Request*> MatchContext::withdraw_from(PeerId process) {
  const auto for_each = [&](auto visit) {
    if (has_process(process)) visit(posted_any_);
    for (std::size_t source = 0; source < sources_.size(); ++source)
      if (may_come_from(static_cast<int>(source), process)) visit(sources_[source].posted);
  };
  std::size_t count = 0;
  for_each([&count](const RequestQueue& queue) {
    for (Request* receive = queue.front(); receive; receive = RequestQueue::after(receive))
      ++count;
  });
  std::vector<Request*> taken;
  taken.reserve(count);  // so that none is taken and then forgotten for want of memory
  for_each([&taken](RequestQueue& queue) {
    while (Request* receive = queue.pop_front())
      taken.push_back(receive);
  });
  return taken;
}

bool MatchContext::finds_broken(int source, int tag) const noexcept {
  if (is_broken_off() || tag < together_below_) return true;
  return source == any_source ? unacknowledged_ : sources_[source].lost;
}

Matcher::~Matcher() {
  for (auto& [id, context] : contexts_)
    while (UnexpectedMessage* message = context->first_unexpected()) {
      context->remove(message);
      delete message;
    }
  while (UnexpectedMessage* message = take_early())
    delete message;
  while (UnexpectedMessage* message = rejected_.pop_front())
    delete message;
}

MatchContext& Matcher::lookup(ContextId id) {
  const auto found = contexts_.find(id);
  if (found == contexts_.end()) return unopened_;
  last_ = found->second.get();
  return *last_;
}

MatchContext& Matcher::make(ContextId id, std::uint32_t sources) {
  auto found = contexts_.find(id);
  if (found == contexts_.end())
    found = contexts_.emplace(id, std::make_unique<MatchContext>(id, sources)).first;
  if (found->second->sources() < sources) found->second->resize(sources);
  return *found->second;
}

UnexpectedMessage* Matcher::take_early() {
  const auto first = early_.begin();
  if (first == early_.end()) return nullptr;
  UnexpectedMessage* message = first->second.pop_front();
  if (first->second.empty()) early_.erase(first);
  return message;
}

void Matcher::close(ContextId id) {
  if (last_ && last_->id() == id) last_ = nullptr;
  contexts_.erase(id);
}

UnexpectedMessage* Matcher::make_message() {
  // So that giving it back needs no memory.
  if (free_.capacity() == 0) free_.reserve(kept_messages);
  return new UnexpectedMessage;
}

void Matcher::give_back(UnexpectedMessage* message) {
  std::unique_ptr<UnexpectedMessage> owned(message);
  if (free_.size() >= kept_messages) return;
  if (owned->large) [[unlikely]]
    owned->large.reset();
  if (owned->content() != UnexpectedMessage::Content::bytes) [[unlikely]]
    owned->where = UnexpectedMessage::Here{};
  owned->is_awaited = owned->is_claimable = false;
  owned->mark = 0;
  owned->context = nullptr;
  owned->cost = 0;
  free_.push_back(std::move(owned));
}

}  // namespace isthmus
