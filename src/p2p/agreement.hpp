#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.hpp"
#include "p2p/active/completion.hpp"
#include "p2p/active/unexpected.hpp"
#include "p2p/link/links.hpp"
#include "p2p/losses.hpp"
#include "p2p/message/context_ids.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/message/message.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus {

/// How processes agree on something although some of them may die meanwhile, and how they hear that a
/// communicator is revoked. Answers others also while the program is in no call about it,
/// whenever there is progress.
///
/// **The agreement.** Each member joins a round with a value. The coordinator is the living member of lowest
/// number, as far as each knows. It waits until every other member has told it its state or is known to be
/// dead, makes one value of them all, proposes it, waits until every living member holds it, and commits it.
/// When it dies, the next in order takes over: it asks all for their state; who holds a proposal sends that,
/// who knows the outcome sends the outcome.
///
/// *All who learn an outcome learn the same*, for any number of deaths, because no living process is ever
/// taken for dead (`launch::LifeLine`). Take the first coordinator that commits, with value v. Every member
/// that it has not seen dead then holds v. A later coordinator lived at that time (the order is fixed, and it
/// only acts once all before it are dead), so it holds v itself, and proposes v: of several proposals that it
/// hears of it takes the one of the latest coordinator, and no coordinator after the first that committed
/// proposes anything else. *It ends*: each wait is for a member that lives, which answers or dies, and each
/// change of coordinator is a death.
///
/// Where a network parts processes that live, each side takes the other for dead, and they may agree on
/// different things: nothing can be agreed on then (Fischer, Lynch and Paterson).
class Agreements final : private MatchContext::Listener, private LossListener, public OverContexts {
 public:
  /// What is agreed on: a word, and a bit for each member and what else the words carry.
  struct Value {
    std::int32_t flag = 0;
    bool failed = false;  ///< agree: a member is dead that not everybody has acknowledged
    std::vector<std::uint64_t> words;
  };
  /// What the coordinator makes of all values.
  enum class Kind : std::uint8_t {
    agree,   ///< flags are and-ed; words: the dead that each has acknowledged
    shrink,  ///< words: the dead that each knows, then the context of the new communicator
  };

  /// What they are made of besides.
  struct Surroundings {
    Links& links;
    Completion& completion;
    UnexpectedMessages& unexpected;
    CpuSends& sends;
    Losses& losses;
  };
  explicit Agreements(const Surroundings& around) noexcept : around_(around) {
    around.losses.set_listener(this);
  }
  Agreements(const Agreements&) = delete;
  Agreements& operator=(const Agreements&) = delete;

  /// The matching space of these messages has been opened; before any other process may send.
  void open(MatchContext& context) { context.listen(this); }

  /// Takes part in the next agreement of `context` among `members`, which are the same for all, in the same
  /// order. `done` is called with the outcome, perhaps before this returns, from within progress. One
  /// agreement of a context follows the other: a later one begins here when the one before has ended. Without
  /// memory it throws, and nothing has begun.
  void join(ContextId context, std::span<const PeerId> members, Kind kind, Value mine,
            std::function<void(const Value&)> done);

  /// Without memory it throws, and nothing has begun.
  void revoke(ContextId id, ErrorClass why) { hear_revoked(id, why); }
  /// `id` and `id + 1` have just been opened here; others may have revoked them before.
  void opened(ContextId id) noexcept;
  /// A context is closed here; in a job that goes on after a loss others may still send there.
  void closed(ContextId id) noexcept;
  [[nodiscard]] bool is_over(ContextId id) const noexcept override {
    return !revoked_.empty() && revoked_.contains(first_of(id));
  }
  static void set(std::vector<std::uint64_t>& words, std::uint32_t member) noexcept {
    words[member / 64] |= std::uint64_t{1} << (member % 64);
  }
  [[nodiscard]] static bool has(const std::vector<std::uint64_t>& words, std::uint32_t member) noexcept {
    return member / 64 < words.size() && (words[member / 64] >> (member % 64) & 1U) != 0;
  }
  [[nodiscard]] static std::size_t words_for(std::size_t members) noexcept { return (members + 63) / 64; }

 private:
  enum class Says : std::uint8_t { joined = 1, holds, committed, proposes, accepts, asks, revokes };
  /// On the wire; fits into one cell. Long values go in several.
  struct Notice {
    std::uint64_t context;
    std::uint32_t round;
    Says says;
    std::uint8_t marks;   ///< `failed_mark`, `last_mark`
    std::uint16_t index;  ///< of `word`
    std::int32_t flag;
    PeerId origin;  ///< coordinator of the proposal
    std::uint64_t word;
  };
  static_assert(sizeof(Notice) == 32);
  static constexpr std::uint8_t failed_mark = 1, last_mark = 2;
  static constexpr PeerId nobody = ~PeerId{0};

  struct State {
    Says says;
    PeerId origin;
    Value value;
  };
  struct Round {
    bool is_joined = false;
    Kind kind = Kind::agree;
    Value mine;
    std::function<void(const Value&)> done;
    std::optional<Value> held;
    PeerId origin = nobody;  ///< of `held`
    bool is_committed = false;
    PeerId told = nobody;   ///< to whom the state has been sent
    PeerId asker = nobody;  ///< the latest coordinator that has asked for it
    // as coordinator
    bool coordinates = false;
    bool has_asked = false;     ///< all others for their state
    bool has_proposed = false;  ///< `held` is what this process proposes
    bool has_told = false;      ///< all others of it
    std::map<PeerId, State> states;
    std::unordered_set<PeerId> accepted;
  };
  struct Revoked {
    ErrorClass why = ErrorClass::success;
    bool is_told = false;  ///< to all other members that are known here
  };
  struct Pending {
    Kind kind;
    Value mine;
    std::function<void(const Value&)> done;
  };
  struct Space {
    std::vector<PeerId> members;
    std::uint32_t begun = 0;      ///< rounds that this process has joined; all but the last have ended
    std::deque<Pending> pending;  ///< for rounds to come
    std::map<std::uint32_t, Round> rounds;
  };

  /// Of the two contexts of a communicator.
  [[nodiscard]] static ContextId first_of(ContextId id) noexcept { return id & ~ContextId{1}; }
  void came(MatchContext& context, UnexpectedMessage& message) override;
  void lost(PeerId id) noexcept override { incoming_.erase(id); }
  /// Does what could have been done before, but for want of memory, or of a loss.
  void settle() override;
  void hear(PeerId from, const Notice& notice);
  void hear(PeerId from, const Notice& notice, Value value);
  Space& space_of(ContextId context);
  Round* round_of(const Notice& notice);
  void advance(ContextId context, Space& space, std::uint32_t number, Round& round);
  void coordinate(ContextId context, Space& space, std::uint32_t number, Round& round);
  [[nodiscard]] Value decide(const Space& space, const Round& round) const;
  void begin_pending(ContextId context, Space& space);
  void commit(ContextId context, Space& space, Round& round, Value value);
  [[nodiscard]] PeerId coordinator(const Space& space) const;
  template <class Visit>
  void for_living(const Space& space, Visit visit) const;
  void tell_state(PeerId to, ContextId context, std::uint32_t number, Round& round);
  void send(PeerId to, Notice notice, const Value& value);
  void send(PeerId to, const Notice& notice);
  void hear_revoked(ContextId id, ErrorClass why);
  void tell_revoked(ContextId id, ErrorClass why);

  Surroundings around_;
  std::unordered_map<ContextId, Space> spaces_;
  std::deque<ContextId> opened_;                ///< keys of `spaces_`, oldest first
  std::unordered_map<PeerId, Value> incoming_;  ///< what has come of a long value
  std::unordered_map<ContextId, Revoked> revoked_;
};

}  // namespace isthmus
