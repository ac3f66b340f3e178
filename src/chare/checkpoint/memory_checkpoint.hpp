#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "chare/checkpoint/checkpoint_file.hpp"
#include "chare/nodes.hpp"

/// Checkpoints in memory, each part of which two processes keep, also after one of them has died: the one
/// that has written it, and its *buddy* (Zheng, Shi and Kalé, "FTC-Charm++: an in-memory checkpoint-based
/// fault tolerant runtime for Charm++ and MPI", Cluster 2004). A checkpoint is *pending* until all parts are
/// kept twice, and then *committed*; the older one is kept until that has been said. So as long as one
/// process has heard it, all have their parts of the new one; and as long as none has, all have their parts
/// of the older one.
namespace isthmus::chare {

/// What one process has written of its chares: for each a `SavedChare`, and that many bytes.
struct MemoryPart {
  std::uint32_t writer = 0;  ///< its rank when it wrote this
  std::uint64_t bytes = 0;
  std::uint64_t capacity = 0;  ///< of `data`
  std::shared_ptr<std::byte[]> data;

  [[nodiscard]] std::span<const std::byte> text() const noexcept { return {data.get(), bytes}; }
};

/// What all processes know of a committed checkpoint.
struct MemoryHead {
  CheckpointHead head;                        ///< `parts` has a size for each writer, and no more
  std::vector<isthmus_chare_callback> quiet;  ///< those who were waiting for quiescence
  std::vector<std::uint32_t> ranks;           ///< in MPI_COMM_WORLD, by writer
  std::vector<std::uint32_t> buddies;         ///< the same of who keeps its copy
  std::vector<std::uint32_t> nodes;           ///< their numbers, by writer
  template <class Archive>
  void serialize(Archive& archive) {
    archive(head, quiet, ranks, buddies, nodes);
  }
};

/// What a process that lives says of what it keeps. Numbers of checkpoints grow; 0 is none.
struct Holdings {
  std::uint64_t committed = 0;
  std::uint64_t pending = 0;
  std::vector<std::uint32_t> committed_parts;  ///< their writers
  std::vector<std::uint32_t> pending_parts;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(committed, pending, committed_parts, pending_parts);
  }
};

/// What this process keeps.
class MemoryCheckpoints {
 public:
  /// Whether there may be anything to go back to.
  [[nodiscard]] bool is_empty() const noexcept {
    return committed_.generation == 0 && pending_.generation == 0;
  }
  /// A new checkpoint is being written. The number of one that is pending ends that.
  void begin(std::uint64_t generation);
  /// A part of the pending one. False where it is of another, or kept already.
  [[nodiscard]] bool keep(std::uint64_t generation, MemoryPart part);
  /// A part with room for so many bytes: in memory of an earlier checkpoint where that is as large, and
  /// nobody sends from it any more. Throws `std::bad_alloc`.
  [[nodiscard]] MemoryPart take(std::uint32_t writer, std::uint64_t bytes);
  /// The pending one will not be.
  void drop(std::uint64_t generation);
  /// It takes the place of the older one. False where it is not the pending one.
  [[nodiscard]] bool commit(std::uint64_t generation, MemoryHead head);
  /// All go on from this one, which is kept here: it is the only one from now on.
  void settle_on(std::uint64_t generation, MemoryHead head);
  /// A copy of the committed one's part of `writer` is kept by rank `keeper` of MPI_COMM_WORLD from now on.
  void note_keeper(std::uint32_t writer, std::uint32_t keeper);
  /// Such a copy, which comes here.
  void keep_copy(MemoryPart part) { committed_.parts.push_back(std::move(part)); }

  [[nodiscard]] Holdings holdings() const;
  /// Of the committed one.
  [[nodiscard]] const MemoryHead& head() const noexcept { return committed_.head; }
  [[nodiscard]] const std::vector<MemoryPart>& parts() const noexcept { return committed_.parts; }
  /// That all of it takes, without what waits to be used again.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

 private:
  struct Checkpoint {
    std::uint64_t generation = 0;
    MemoryHead head;
    std::vector<MemoryPart> parts;
  };
  void put_aside(Checkpoint& checkpoint);

  Checkpoint committed_;
  Checkpoint pending_;
  std::vector<MemoryPart> spare_;  ///< of the latest that is no more
};

/// Writes a part: `begin` with what all of it takes, then each chare.
class MemoryPartWriter {
 public:
  /// To all of `part`.
  explicit MemoryPartWriter(MemoryPart part) noexcept : part_(std::move(part)) {}
  /// What `add` takes for a chare of so many bytes.
  [[nodiscard]] static std::uint64_t size_of(std::uint64_t bytes) noexcept;
  /// Where the `chare.bytes` bytes go that it writes. Null: it has become longer.
  [[nodiscard]] std::byte* add(const SavedChare& chare) noexcept;
  [[nodiscard]] MemoryPart finish() && noexcept { return std::move(part_); }

 private:
  MemoryPart part_;
  std::uint64_t used_ = 0;
};

/// Hands each chare of a part to `take`, with what it has written. An error where it does not fit: the part
/// comes from another process.
Result<> for_each_chare(const MemoryPart& part,
                        const std::function<Result<>(const SavedChare&, std::span<const std::byte>)>& take);

/// The checkpoint that all who live go on from, and one of them that knows its head: by the order of `all`.
struct Choice {
  std::uint64_t generation = 0;  ///< 0: there is none
  std::uint32_t knows_head = 0;
};
[[nodiscard]] Choice choose_checkpoint(std::span<const Holdings> all);

/// Who hands out each part, by writer: who has written it, and else who keeps its copy. `ranks`: those who
/// live, in MPI_COMM_WORLD, in the order of `all`. An error names those whose part nobody has any more.
Result<std::vector<std::uint32_t>> find_holders(const MemoryHead& head, std::uint64_t generation,
                                                std::span<const Holdings> all,
                                                std::span<const std::uint32_t> ranks);

/// A part that one process alone keeps, and who is to keep a copy of it.
struct MissingCopy {
  std::uint32_t writer = 0;
  std::uint32_t from = 0;  ///< a number in `all`, as `to`
  std::uint32_t to = 0;
};
/// All of them, in the order of writers: those of the dead, and those whose copy a dead process kept.
/// `nodes`: of each who lives, in the order of `all`. Nothing where one alone lives.
[[nodiscard]] std::vector<MissingCopy> find_missing_copies(const MemoryHead& head, std::uint64_t generation,
                                                           std::span<const Holdings> all,
                                                           std::span<const std::uint32_t> nodes);

/// In which order those who live go on, by their numbers in `ranks`: each writer that lives where it was, and
/// in the place of one that is no more a process that had no chares, as long as there are such; behind them
/// the rest of those.
[[nodiscard]] std::vector<std::uint32_t> order_survivors(const MemoryHead& head,
                                                         std::span<const std::uint32_t> ranks);

/// Of each node now, which node of the checkpoint it goes on as: that of its processes; where it had none,
/// one that is no more, and else a copy of another. `ranks`: of its processes in MPI_COMM_WORLD, in their
/// order.
[[nodiscard]] std::vector<std::uint32_t> nodes_before(const MemoryHead& head,
                                                      std::span<const std::uint32_t> ranks,
                                                      const Nodes& nodes);

/// Who keeps the copy of what `rank` writes: a process of the next node, where there are several, so that a
/// node may be lost as a whole; else the next one. `nodes`: of each process. There are at least two.
[[nodiscard]] std::uint32_t buddy_of(std::uint32_t rank, std::span<const std::uint32_t> nodes);

}  // namespace isthmus::chare
