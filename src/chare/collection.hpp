#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "chare/index_map.hpp"
#include "chare/message.hpp"
#include "chare/nodes.hpp"

namespace isthmus::chare {
class Collection;
inline constexpr std::uint32_t stays = 0xffff'ffff;
using Shape = isthmus_chare_shape;
using Callback = isthmus_chare_callback;
[[nodiscard]] inline bool is_group(const Shape& shape) noexcept {
  return shape.kind == ISTHMUS_CHARE_GROUP || shape.kind == ISTHMUS_CHARE_NODE_GROUP;
}
}  // namespace isthmus::chare

/// What the library knows of a chare of this process: 72 bytes, beside 8 to 43 in a table.
struct isthmus_chare_element {
  void* object = nullptr;  ///< null: it is being made, or has ended
  isthmus::chare::Collection* collection = nullptr;
  isthmus::chare::Index index{};
  std::uint32_t pending = 0;     ///< messages that point here: it is not used again before
  std::uint32_t broadcasts = 0;  ///< how many of its collection it has had, in their order
  std::uint32_t covered = 0;     ///< those up to here come by themselves, if it has not had them
  std::uint32_t reductions = 0;  ///< how many it has given its part to
  std::uint16_t held = 0;        ///< coroutines that are suspended
  std::uint16_t receiving = 0;   ///< invocations whose data is on its way to its memory
  std::uint32_t moves = 0;       ///< how often it has moved
  std::uint32_t moves_to = isthmus::chare::stays;  ///< after the entry that it is in
  bool ends = false;                               ///< the same
  bool has_own_load = false;                       ///< the program says what it is
  bool is_at_sync = false;                         ///< it waits to be balanced
  double load = 0;                                 ///< seconds in its entries since the last balancing

  /// Whether it can neither move nor end now.
  [[nodiscard]] bool is_busy() const noexcept { return held != 0 || receiving != 0; }
};

namespace isthmus::chare {

struct ElementIndex {
  Index operator()(const Element* element) const noexcept { return element->index; }
};
struct IndexHash {
  std::size_t operator()(Index index) const noexcept { return spread(index); }
};
struct IndexEqual {
  bool operator()(Index a, Index b) const noexcept { return is_same(a, b); }
};

/// Where a chare lives, as of how many moves: who has heard of more moves is right, whatever comes in
/// whatever order. Plain bytes: it is sent.
struct Location {
  std::uint32_t rank;  ///< or `nowhere`
  std::uint32_t moves;
  std::uint32_t is_new = 0;  ///< 1: it has been inserted there
};
inline constexpr std::uint32_t nowhere = 0xffff'ffff;  ///< it has ended

/// A chare that has left, whose arrival has not been heard of, or to which broadcasts have to be passed on.
struct Departure {
  Index index;
  std::uint32_t moves;      ///< with this one
  std::uint32_t had;        ///< broadcasts
  std::uint32_t until = 0;  ///< those up to here it does not get where it is
  bool has_arrived = false;
};

/// What balancing keeps in this process, and in the root.
struct Balancing {
  // Chares at sync.
  const Item* balancer = nullptr;
  const Item* next = nullptr;             ///< the entry that goes on
  std::vector<isthmus_chare_load> loads;  ///< that have not been sent to the root
  std::vector<Index> waiting;             ///< all that are at sync here
  bool is_listed = false;
  std::uint32_t rounds = 0;  ///< done here
  /// Chares that have come here with a round that this process has not done yet: they wait for it, or they
  /// would be at sync a second time together with those of the round before.
  std::vector<Index> ahead;
  // Root: what has come of them, or of all that were asked for now.
  std::vector<isthmus_chare_load> synced;
  const Item* sync_balancer = nullptr;
  const Item* sync_next = nullptr;
  std::vector<isthmus_chare_load> asked;
  std::uint32_t missing = 0;  ///< answers
  std::uint32_t rounds_told = 0;
  std::uint64_t moving = 0;  ///< chares that have been told to move
  bool is_asked = false;
  Callback callback{};
};

/// An invocation that may have to be made again.
struct Kept {
  const Item* item;
  std::uint32_t origin;
  std::vector<std::byte> payload;
};

/// What has been given to one reduction in this process, and what of it has not been sent up yet.
struct Reduction {
  const Item* reducer = nullptr;
  void* value = nullptr;  ///< made by `reducer`; null: all has been sent up
  Callback callback{};
  std::uint64_t held = 0;   ///< parts in `value`
  std::uint64_t given = 0;  ///< by chares of this process, in all
  bool is_listed = false;
};

/// The part of an array or a group that this process knows. Its *root* is the process that has made it.
class Collection {
 public:
  /// `nodes`: of a node group; it lives longer.
  Collection(std::uint64_t id, const Shape& shape, const Item* type, std::uint32_t processes,
             const Nodes* nodes = nullptr)
      : id_(id), shape_(shape), type_(type), processes_(processes), nodes_(nodes) {
    if (shape.kind != ISTHMUS_CHARE_SPARSE) population_ = shape.count;
  }
  Collection(const Collection&) = delete;
  Collection& operator=(const Collection&) = delete;

  static std::uint64_t id_of(std::uint32_t root, std::uint32_t number) noexcept {
    return (std::uint64_t{root} << 32) | number;
  }
  /// Of a collection that was made before a restart, by a process that is no more, another of `processes`.
  static std::uint32_t root_of(std::uint64_t id, std::uint32_t processes) noexcept {
    return maker_of(id) % processes;
  }
  static std::uint32_t maker_of(std::uint64_t id) noexcept { return static_cast<std::uint32_t>(id >> 32); }

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] std::uint32_t root() const noexcept { return root_of(id_, processes_); }
  [[nodiscard]] const Item* type() const noexcept { return type_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] bool is_sparse() const noexcept { return shape_.kind == ISTHMUS_CHARE_SPARSE; }
  /// Of processes, or of nodes: its chares do not move.
  [[nodiscard]] bool is_group() const noexcept { return chare::is_group(shape_); }
  [[nodiscard]] bool is_of_nodes() const noexcept { return shape_.kind == ISTHMUS_CHARE_NODE_GROUP; }

  /// The process that knows where the chare is, and where it is made if nobody says where.
  [[nodiscard]] std::uint32_t home(Index index) const noexcept;
  /// Whether there can be a chare of that index.
  [[nodiscard]] bool may_have(Index index) const noexcept {
    return is_sparse() || (index.high == 0 && index.low < shape_.count);
  }
  /// The first index of a dense one whose home is `process`.
  [[nodiscard]] std::uint64_t first_of(std::uint32_t process) const noexcept;
  /// For people: `Cell[3, 4]`.
  [[nodiscard]] std::string name(Index index) const;

  [[nodiscard]] Element* find(Index index) const noexcept {
    if (const std::uint64_t place = index.low - first_; place < block_.size() && index.high == 0)
      return block_[place];
    return local_.find(index);
  }
  /// How many live here.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// A new one, not there yet, without its object. The address is good as long as it lives.
  Element* add(Index index);
  void remove(Element& element) noexcept;
  /// Its memory may serve another: it has ended, and no message points to it.
  void recycle(Element& element) { unused_.push_back(&element); }
  /// Those whose home this is have consecutive numbers: they are found without a search, and 10^6 of them are
  /// made in a third of the time that a table takes.
  void have_block(std::uint64_t first, std::size_t count) {
    first_ = first;
    block_.assign(count, nullptr);
  }
  /// There are other processes from now on, and nothing is under way. Chares stay where they are in memory;
  /// what has been said of where others are, and which broadcasts and reductions there have been, is
  /// forgotten. `shape`: as before, but for the number of a group. `rank`: of this process, which may have
  /// none of them.
  void rehome(const Shape& shape, std::uint32_t processes, std::uint32_t rank);
  /// Its block, of the processes that there are.
  void have_own_block(std::uint32_t rank);
  /// Indices of the block: from the first on, so many.
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
  [[nodiscard]] std::uint64_t block_size() const noexcept { return block_.size(); }
  /// Calls `visit` with each that has an object, and with those that are made meanwhile.
  template <class Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < used_; ++i)
      if (Element& element = chunks_[i / chunk][i % chunk]; element.object) visit(element);
  }

  /// Whether the time in entries is counted: for types that somebody balances. Two looks at the clock are
  /// more than half of what a short entry costs.
  bool is_measured = false;
  std::unique_ptr<Balancing> balancing;  ///< null: nobody has asked for it

  /// Where chares live that are not here, as far as this process has been told.
  std::unordered_map<Index, Location, IndexHash, IndexEqual> located;
  /// Invocations of chares that have not been inserted yet, in their home.
  std::unordered_map<Index, std::vector<Message*>, IndexHash, IndexEqual> kept;

  std::uint32_t broadcasts_made = 0;  ///< root alone
  std::uint32_t broadcasts = 0;       ///< done here
  std::map<std::uint32_t, Message*> early_broadcasts;
  std::vector<Departure> departures;
  /// Broadcasts that were done here since the oldest departure that has not arrived, as records and payloads.
  std::map<std::uint32_t, Kept> broadcast_log;
  /// Of chares that wait for an earlier one, by number.
  std::unordered_map<Index, std::map<std::uint32_t, Kept>, IndexHash, IndexEqual> held_broadcasts;

  std::map<std::uint32_t, Reduction> reductions;  ///< by number
  /// The entry of `reductions`, made where there is none.
  Reduction& reduction(std::uint32_t number) {
    if (!latest_ || latest_number_ != number) {
      latest_ = &reductions[number];
      latest_number_ = number;
    }
    return *latest_;
  }
  void forget(std::map<std::uint32_t, Reduction>::iterator which) {
    latest_ = nullptr;
    reductions.erase(which);
  }
  /// Root: what has come of each reduction; `held` counts parts.
  std::map<std::uint32_t, Reduction> results;

  /// Root: how many chares there are, as far as known.
  [[nodiscard]] bool is_counted() const noexcept { return population_ != unknown; }
  void count(std::uint64_t population) noexcept { population_ = population; }
  /// Root: a chare takes part in no reduction from `first` on.
  void lose(std::uint32_t first) { ++fewer_[first]; }
  /// Root: how many take part in that reduction.
  [[nodiscard]] std::uint64_t population(std::uint32_t reduction) const {
    std::uint64_t count = population_;
    for (auto each = fewer_.begin(); each != fewer_.end() && each->first <= reduction; ++each)
      count -= each->second;
    return count;
  }
  /// Root: how many there are now.
  [[nodiscard]] std::uint64_t population() const { return population(~std::uint32_t{0}); }
  // Of a sparse one, since the start: what the census adds up.
  std::uint64_t inserts_sent = 0;
  std::uint64_t inserts_done = 0;
  bool is_closed = false;  ///< nothing more may be inserted

 private:
  [[nodiscard]] Element** place_of(Index index) noexcept;

  static constexpr std::uint64_t unknown = ~std::uint64_t{0};
  static constexpr std::size_t chunk = 64;

  const std::uint64_t id_;
  Shape shape_;
  const Item* const type_;
  std::uint32_t processes_;
  const Nodes* const nodes_;
  std::uint64_t population_ = unknown;
  std::map<std::uint32_t, std::uint64_t> fewer_;
  Reduction* latest_ = nullptr;
  std::uint32_t latest_number_ = 0;
  std::uint64_t first_ = 0;
  std::vector<Element*> block_;             ///< by index less `first_`
  IndexMap<Element*, ElementIndex> local_;  ///< the others
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<Element[]>> chunks_;
  std::size_t used_ = 0;  ///< of the chunks
  std::vector<Element*> unused_;
};

/// Why a process of `processes` in `nodes` nodes cannot make such a collection.
Result<> check(const Shape& shape, std::uint32_t processes, std::uint32_t nodes);

}  // namespace isthmus::chare
