#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include "p2p/message/gpu_part.hpp"
#include "p2p/message/message.hpp"
#include "p2p/message/queue.hpp"
#include "p2p/message/request.hpp"
#include "wire/ring.hpp"

namespace isthmus {

class Peer;

/// A message that arrived before its receive was posted: its envelope, and where its bytes are.
struct UnexpectedMessage {
  enum class Content : std::uint8_t {
    bytes,          ///< here: in `data`
    offer,          ///< in memory of the sender's host
    remote_offer,   ///< at its sender on another host
    remote_chunks,  ///< there too, and comes in chunks
    gpu_offer,      ///< in the sender's GPU memory
    self,           ///< in the payload of a send of this process
  };
  /// What is known of it for each of these, in their order. The name by which the network's port knows what
  /// another host offers is a number.
  struct Here {};
  struct InChunks {};
  using Where =
      std::variant<Here, wire::SendOffer, std::uint64_t, InChunks, std::unique_ptr<GpuSource>, Request*>;

  int source = 0;
  int tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t arrived = 0;  ///< of `bytes`, while they are `Here`
  bool is_awaited = false;    ///< the sender waits to hear that it has been matched, or never will be
  std::uint16_t mark = 0;     ///< of its cell: its sender wants to hear what it takes
  bool is_claimable = false;  ///< the sender may take it back, and this rank has not claimed it (`Claims`)
  MatchContext* context = nullptr;
  Peer* peer = nullptr;
  wire::Cookie sender = 0;  ///< its send there; of one that is awaited
  std::uint64_t spent = 0;  ///< ticks, of one that is marked
  Where where;              ///< `Here` in all that `take_message` gives
  std::byte* data = nullptr;
  Link<UnexpectedMessage> by_arrival;
  Link<UnexpectedMessage> by_source;

  std::byte small[128];                ///< where `data` points for short messages
  std::unique_ptr<std::byte[]> large;  ///< where it points for others
  std::uint64_t cost = 0;              ///< bytes of memory that it takes, on its peer's account

  [[nodiscard]] Content content() const noexcept { return static_cast<Content>(where.index()); }
};
static_assert(std::variant_size_v<UnexpectedMessage::Where> ==
              static_cast<std::size_t>(UnexpectedMessage::Content::self) + 1);

/// The matching space of one context (MPI 5.0, section 3.5): posted receives and unexpected messages of one
/// communicator, in the order that the standard promises, each found without passing those of other sources.
class MatchContext {
 public:
  MatchContext(ContextId id, std::uint32_t sources) : id_(id), sources_(sources) {}
  MatchContext(const MatchContext&) = delete;
  MatchContext& operator=(const MatchContext&) = delete;

  [[nodiscard]] ContextId id() const noexcept { return id_; }
  [[nodiscard]] std::uint32_t sources() const noexcept { return static_cast<std::uint32_t>(sources_.size()); }
  [[nodiscard]] bool is_source(int source) const noexcept {
    return static_cast<std::uint32_t>(source) < sources_.size();
  }
  void resize(std::uint32_t sources) { sources_.resize(sources); }

  /// Which process each source is, so that the context learns when one is lost. `processes` must live as long
  /// as the context.
  void name_sources(std::span<const PeerId> processes) noexcept { processes_ = processes; }
  /// The loss of one source ends all that is received here with a tag below `tags`, because the sources work
  /// on one thing (collectives). `broken` becomes true then, and when the context is broken off; it must live
  /// as long as the context.
  void work_together(int tags, bool& broken) noexcept {
    together_below_ = tags;
    tells_ = &broken;
  }
  /// Some of the sources do their part of the work in the matching spaces `id` and `id + 1`: what ends the
  /// work here ends it there.
  void has_part(ContextId id) noexcept { part_ = id; }
  [[nodiscard]] std::optional<ContextId> part() const noexcept { return part_; }
  /// `ranks` becomes 0 when the context is broken off; it must live as long as the context.
  void reaches(int& ranks) noexcept { ranks_ = &ranks; }
  [[nodiscard]] std::span<const PeerId> processes() const noexcept { return processes_; }
  /// The process that `source` is: the source's own number where nobody has named them.
  [[nodiscard]] std::int32_t process_of(int source) const noexcept {
    const auto index = static_cast<std::size_t>(source);
    return index < processes_.size() ? static_cast<std::int32_t>(processes_[index]) : source;
  }
  [[nodiscard]] int together_below() const noexcept { return together_below_; }
  /// Whether `process` is among the sources; of a context without names it is assumed.
  [[nodiscard]] bool has_process(PeerId process) const noexcept;
  /// Whether what is received from `source` (or any) may come from `process`.
  [[nodiscard]] bool may_come_from(int source, PeerId process) const noexcept;
  /// From now on nothing is to be expected from `process`: takes out the posted receives that only it, or,
  /// where sources work together, any could have completed, and hands each to `ended`. Those from any source,
  /// which another may still complete, stay where they are if the program has a handle of them; `held_up`
  /// gets each. Neither may post receives here. Needs no memory.
  template <class Ended, class HeldUp>
  void lose(PeerId process, Ended ended, HeldUp held_up) {
    any_lost_ = unacknowledged_ = true;
    if (tells_) *tells_ = true;
    const auto is_together = [this](const Request& receive) { return receive.tag < together_below_; };
    take(posted_any_, [&](const Request& receive) { return is_together(receive) || !receive.owner; }, ended);
    for (Request* receive = posted_any_.front(); receive;) {
      Request* const next = RequestQueue::after(receive);
      held_up(*receive);
      receive = next;
    }
    for (std::size_t source = 0; source < sources_.size(); ++source) {
      const bool is_process = source < processes_.size() && processes_[source] == process;
      if (is_process) sources_[source].lost = true;
      const bool is_all = is_process || processes_.empty();
      take(
          sources_[source].posted, [&](const Request& receive) { return is_all || is_together(receive); },
          ended);
    }
  }
  /// Takes out the posted receives that `process` could complete.
  std::vector<Request*> withdraw_from(PeerId process);
  /// From now on nothing is received here, because of `why`: takes out all posted receives, and hands each to
  /// `ended`, as `lose` does.
  template <class Ended>
  void break_off(ErrorClass why, Ended ended) {
    any_lost_ = true;
    if (!is_broken_off()) why_ = why;
    if (ranks_) *ranks_ = 0;
    if (tells_) *tells_ = true;
    const auto all = [](const Request&) { return true; };
    take(posted_any_, all, ended);
    for (Source& source : sources_)
      take(source.posted, all, ended);
  }
  /// The losses so far keep no receive from any source from waiting for others.
  void acknowledge_losses() noexcept { unacknowledged_ = false; }
  /// Whether a receive from `source` (or any) with `tag` that matches nothing now never will.
  [[nodiscard]] bool is_broken(int source, int tag) const noexcept {
    return any_lost_ && finds_broken(source, tag);
  }
  [[nodiscard]] bool is_broken_off() const noexcept { return why_ != ErrorClass::success; }
  /// Of a receive for which `is_broken` holds.
  [[nodiscard]] ErrorClass why_broken() const noexcept {
    return is_broken_off() ? why_ : ErrorClass::proc_aborted;
  }

  /// Messages that nobody waits for are handed to it instead of being kept; for the library's own contexts.
  class Listener {
   public:
    virtual void came(MatchContext& context, UnexpectedMessage& message) = 0;

   protected:
    ~Listener() = default;
  };
  void listen(Listener* listener) noexcept { listener_ = listener; }
  [[nodiscard]] bool is_listened_to() const noexcept { return listener_ != nullptr; }

  /// Adds a receive that no unexpected message matches.
  void post(Request* receive) noexcept {
    receive->order = ++order_;
    queue_of(*receive).push_back(receive);
  }
  /// Takes back a posted receive.
  void withdraw(Request* receive) noexcept { queue_of(*receive).remove(receive); }

  /// The oldest posted receive that a message with this envelope matches, taken out; null if none. `source`
  /// must be below `sources()`.
  Request* match(int source, int tag) noexcept;
  /// The same receive, left where it is.
  [[nodiscard]] Request* would_match(int source, int tag) const noexcept;

  /// Adds a message that no posted receive matches. `message->source` must be below `sources()`.
  void add(UnexpectedMessage* message) {
    unexpected_.push_back(message);
    sources_[message->source].unexpected.push_back(message);
    if (listener_) [[unlikely]]
      listener_->came(*this, *message);
  }
  /// The oldest unexpected message that a receive from `source` (or any) with `tag` (or any) matches, left
  /// where it is.
  [[nodiscard]] UnexpectedMessage* find(int source, int tag) const noexcept;
  void remove(UnexpectedMessage* message) noexcept {
    unexpected_.remove(message);
    sources_[message->source].unexpected.remove(message);
  }
  [[nodiscard]] bool has_unexpected() const noexcept { return !unexpected_.empty(); }
  [[nodiscard]] UnexpectedMessage* first_unexpected() const noexcept { return unexpected_.front(); }
  /// The one that has come next; null after the last.
  [[nodiscard]] static UnexpectedMessage* next_unexpected(const UnexpectedMessage& message) noexcept {
    return Queue<UnexpectedMessage, &UnexpectedMessage::by_arrival>::after(&message);
  }

 private:
  using RequestQueue = Queue<Request, &Request::queued>;
  struct Source {
    RequestQueue posted;
    Queue<UnexpectedMessage, &UnexpectedMessage::by_source> unexpected;
    bool lost = false;
  };

  [[nodiscard]] bool finds_broken(int source, int tag) const noexcept;
  template <class Which, class Ended>
  static void take(RequestQueue& queue, Which which, Ended& ended) {
    for (Request* receive = queue.front(); receive;) {
      Request* const next = RequestQueue::after(receive);
      if (which(*receive)) {
        queue.remove(receive);
        ended(*receive);
      }
      receive = next;
    }
  }
  RequestQueue& queue_of(const Request& receive) noexcept {
    return receive.source == any_source ? posted_any_ : sources_[receive.source].posted;
  }

  ContextId id_;
  std::vector<Source> sources_;
  RequestQueue posted_any_;
  Queue<UnexpectedMessage, &UnexpectedMessage::by_arrival> unexpected_;
  std::uint64_t order_ = 0;
  std::span<const PeerId> processes_;
  int together_below_ = std::numeric_limits<int>::min();
  std::optional<ContextId> part_;
  bool* tells_ = nullptr;
  int* ranks_ = nullptr;
  Listener* listener_ = nullptr;
  bool any_lost_ = false;
  bool unacknowledged_ = false;  ///< a loss that receives from any source have to hear of
  ErrorClass why_ = ErrorClass::success;
};

/// All matching spaces of one engine, and the messages that have come before theirs was opened. The only
/// owner of matching order.
///
/// A context that nobody has opened takes no more memory than its messages: the contexts that cells name are
/// their sender's choice.
class Matcher {
 public:
  Matcher() = default;
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// The space of `id`; where nobody has opened it one without sources, in which nothing matches.
  MatchContext& context(ContextId id) {
    if (last_ && last_->id() == id) [[likely]]
      return *last_;
    return lookup(id);
  }
  /// Whether `context` is what stands for those that nobody has opened.
  [[nodiscard]] bool is_unopened(const MatchContext& context) const noexcept {
    return &context == &unopened_;
  }
  [[nodiscard]] bool is_open(ContextId id) const { return contexts_.contains(id); }
  /// The space of `id`, with at least so many sources. What came before it is in it, but for messages of
  /// sources beyond these, which `misfit` is handed, and which may not throw.
  template <class Misfit>
  MatchContext& open(ContextId id, std::uint32_t sources, Misfit misfit) {
    MatchContext& context = make(id, sources);
    adopt_early(context, misfit);
    return context;
  }
  /// The same for two spaces: both or, where memory runs out, neither that was not open.
  struct Two {
    MatchContext& first;
    MatchContext& second;
  };
  template <class Misfit>
  Two open_two(std::array<ContextId, 2> ids, std::array<std::uint32_t, 2> sources, Misfit misfit) {
    const bool was_open = is_open(ids[0]);
    MatchContext& first = make(ids[0], sources[0]);
    MatchContext* second = nullptr;
    try {
      second = &make(ids[1], sources[1]);
    } catch (...) {
      if (!was_open) close(ids[0]);  // nothing is in it yet
      throw;
    }
    adopt_early(first, misfit);
    adopt_early(*second, misfit);
    return {first, *second};
  }
  MatchContext& open(ContextId id, std::uint32_t sources) {
    return open(id, sources, [this](UnexpectedMessage* message) { give_back(message); });
  }
  /// Removes the space; the caller has emptied it.
  void close(ContextId id);

  [[nodiscard]] MatchContext* find(ContextId id) noexcept {
    const auto found = contexts_.find(id);
    return found != contexts_.end() ? found->second.get() : nullptr;
  }
  /// Keeps a message that matches nothing. `context`: as `context(id)` has given it.
  void keep(MatchContext& context, ContextId id, UnexpectedMessage* message) {
    if (is_unopened(context)) [[unlikely]] {
      early_[id].push_back(message);
      return;
    }
    message->context = &context;
    context.add(message);
  }
  /// As `MatchContext::match`; null in a context that nobody has opened.
  Request* match(MatchContext& context, int source, int tag) const noexcept {
    return is_unopened(context) ? nullptr : context.match(source, tag);
  }
  /// The oldest message of a context that nobody has opened, taken out; null if there is none.
  UnexpectedMessage* take_early();
  /// Takes a message out of its context and keeps it among those whose senders are yet to hear that nobody
  /// will receive it. Needs no memory.
  void reject(MatchContext& context, UnexpectedMessage* message) noexcept {
    context.remove(message);
    reject(message);
  }
  /// The same for a message that is in none.
  void reject(UnexpectedMessage* message) noexcept { rejected_.push_back(message); }
  /// The oldest of them.
  [[nodiscard]] UnexpectedMessage* first_rejected() const noexcept { return rejected_.front(); }
  void remove_rejected(UnexpectedMessage* message) noexcept { rejected_.remove(message); }

  template <class Visit>
  void for_each(Visit visit) {
    for (auto& [id, context] : contexts_)
      visit(*context);
  }

  /// All messages that no receive has matched, also in spaces that nobody has opened. `visit` may change
  /// them, and takes none out.
  template <class Visit>
  void for_each_unexpected(Visit visit) {
    for (auto& [id, context] : contexts_)
      for (UnexpectedMessage* each = context->first_unexpected(); each;
           each = MatchContext::next_unexpected(*each))
        visit(*each);
    for (auto& [id, early] : early_)
      for (UnexpectedMessage* each = early.front(); each; each = Early::after(each))
        visit(*each);
  }

  /// Takes such a message out.
  void take_out(UnexpectedMessage* message) {
    if (message->context) return message->context->remove(message);
    for (auto each = early_.begin(); each != early_.end(); ++each)
      for (UnexpectedMessage* at = each->second.front(); at; at = Early::after(at))
        if (at == message) {
          each->second.remove(message);
          if (each->second.empty()) early_.erase(each);
          return;
        }
  }

  UnexpectedMessage* take_message() {
    if (free_.empty()) return make_message();
    UnexpectedMessage* message = free_.back().release();
    free_.pop_back();
    return message;
  }
  void give_back(UnexpectedMessage* message);

 private:
  using Early = Queue<UnexpectedMessage, &UnexpectedMessage::by_arrival>;

  template <class Misfit>
  void adopt_early(MatchContext& context, Misfit& misfit) {
    if (early_.empty()) return;
    const auto early = early_.extract(context.id());
    if (!early) return;
    while (UnexpectedMessage* message = early.mapped().pop_front()) {
      message->context = &context;
      if (context.is_source(message->source))
        context.add(message);
      else
        misfit(message);
    }
  }

  MatchContext& lookup(ContextId id);
  MatchContext& make(ContextId id, std::uint32_t sources);
  UnexpectedMessage* make_message();

  MatchContext* last_ = nullptr;
  std::unordered_map<ContextId, std::unique_ptr<MatchContext>> contexts_;
  MatchContext unopened_{~ContextId{0}, 0};
  std::unordered_map<ContextId, Early> early_;  ///< by context, none of them empty
  Early rejected_;
  std::vector<std::unique_ptr<UnexpectedMessage>> free_;
};

}  // namespace isthmus
