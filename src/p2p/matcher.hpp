#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "p2p/message.hpp"
#include "p2p/queue.hpp"
#include "p2p/request.hpp"

namespace isthmus {

class Peer;

/// A message that arrived before its receive was posted: its envelope, and its bytes or the offer of them.
struct UnexpectedMessage {
  enum class Content : std::uint8_t {
    bytes,          ///< in `data`
    offer,          ///< at the sender: `offer`
    remote_offer,   ///< of `offer.sender` on another host: `offer.address` is the port's name for it
    remote_chunks,  ///< in chunks, of the send `offer.sender` of another host
    gpu_offer,      ///< in the sender's GPU memory: `offer.sender`, and a `GpuSource` in `large`
    self,           ///< in the payload of `local_send`, a request of this process
  };

  int source = 0;
  int tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t arrived = 0;  ///< of `bytes`, with `Content::bytes`
  Content content = Content::bytes;
  bool acknowledge =
      false;  ///< the sender waits to hear that it has been matched; `offer.sender` names its request
  MatchContext* context = nullptr;
  Peer* peer = nullptr;
  wire::SendOffer offer{};
  Request* local_send = nullptr;
  std::byte* data = nullptr;
  Link<UnexpectedMessage> by_arrival;
  Link<UnexpectedMessage> by_source;

  std::byte small[128];                ///< where `data` points for short messages
  std::unique_ptr<std::byte[]> large;  ///< where it points for others
};

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
  /// as the context. `together`: the loss of one ends all that is received here, because the sources work on
  /// one thing (collectives).
  void name_sources(std::span<const PeerId> processes, bool together) noexcept {
    processes_ = processes;
    together_ = together;
  }
  /// Whether `process` is among the sources; of a context without names it is assumed.
  [[nodiscard]] bool has_process(PeerId process) const noexcept;
  /// From now on nothing is to be expected from `process`: takes out the posted receives that only it, or
  /// with `together` any, could have completed, and those from any source.
  std::vector<Request*> lose(PeerId process);
  /// Whether a receive from `source` (or any) that matches nothing now never will.
  [[nodiscard]] bool is_broken(int source) const noexcept {
    return any_lost_ && (source == any_source || together_ || sources_[source].lost);
  }

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

  /// Adds a message that no posted receive matches. `message->source` must be below `sources()`.
  void add(UnexpectedMessage* message) noexcept {
    unexpected_.push_back(message);
    sources_[message->source].unexpected.push_back(message);
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

 private:
  using RequestQueue = Queue<Request, &Request::queued>;
  struct Source {
    RequestQueue posted;
    Queue<UnexpectedMessage, &UnexpectedMessage::by_source> unexpected;
    bool lost = false;
  };

  RequestQueue& queue_of(const Request& receive) noexcept {
    return receive.source == any_source ? posted_any_ : sources_[receive.source].posted;
  }

  ContextId id_;
  std::vector<Source> sources_;
  RequestQueue posted_any_;
  Queue<UnexpectedMessage, &UnexpectedMessage::by_arrival> unexpected_;
  std::uint64_t order_ = 0;
  std::span<const PeerId> processes_;
  bool together_ = false;
  bool any_lost_ = false;
};

/// All matching spaces of one engine. The only owner of matching order.
class Matcher {
 public:
  Matcher() = default;
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// The space of `id`, made if a message comes before its communicator does; then with room for
  /// `default_sources`.
  MatchContext& context(ContextId id) {
    if (last_ && last_->id() == id) [[likely]]
      return *last_;
    return lookup(id);
  }
  MatchContext& open(ContextId id, std::uint32_t sources);
  /// Removes the space; the caller has emptied it.
  void close(ContextId id);

  template <class Visit>
  void for_each(Visit visit) {
    for (auto& [id, context] : contexts_)
      visit(*context);
  }

  void set_default_sources(std::uint32_t sources) noexcept { default_sources_ = sources; }

  UnexpectedMessage* take_message() {
    if (free_.empty()) return new UnexpectedMessage;
    UnexpectedMessage* message = free_.back().release();
    free_.pop_back();
    return message;
  }
  void give_back(UnexpectedMessage* message);

 private:
  MatchContext& lookup(ContextId id);

  MatchContext* last_ = nullptr;
  std::unordered_map<ContextId, std::unique_ptr<MatchContext>> contexts_;
  std::vector<std::unique_ptr<UnexpectedMessage>> free_;
  std::uint32_t default_sources_ = 1;
};

}  // namespace isthmus
