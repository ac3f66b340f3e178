#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "p2p/active/cell_handlers.hpp"
#include "p2p/link/links.hpp"
#include "p2p/link/peer_memory.hpp"
#include "p2p/progress/poll_list.hpp"
#include "p2p/protocol/mapping/own_allocations.hpp"
#include "p2p/protocol/mapping/peer_mappings.hpp"

namespace isthmus {

/// Messages out of memory that both sides map: what MPI_Alloc_mem has given to the sender. The receiver
/// copies from the sender's own pages, with no system call, whatever namespaces, users and rules lie between
/// the two.
///
/// A sender leaves the descriptor of an allocation in the region's box for each peer that it first sends from
/// it to, and tells the peer the number (`wire::MemoryTold`); its offers name the number. The peer maps the
/// memory to read it, and keeps the last used mappings. Where it has not one that an offer names, it asks to
/// be told again, and that message goes another way.
///
/// Guarded by the engine's lock.
class MappedMemory final : public PeerMemory, public Polled {
 public:
  MappedMemory(Links& links, PollList& polled, PeerMemories& memories, CellHandlers& handlers);

  [[nodiscard]] std::unique_ptr<Allocation> allocate(std::size_t bytes, std::size_t alignment) override;
  std::uint32_t announce(Peer& peer, const void* data, std::uint64_t bytes) noexcept override;
  static const Probe probe;
  [[nodiscard]] bool carries(Protocol protocol) const noexcept override {
    return protocol == Protocol::mapped;
  }
  [[nodiscard]] bool reaches(Peer& peer, const wire::SendOffer& offer, std::uint64_t bytes) noexcept override;
  [[nodiscard]] Result<> read(Peer& peer, const wire::SendOffer& offer, const Payload& to,
                              std::uint64_t bytes) override;
  void forget(const Peer& peer) noexcept override;
  void close() noexcept override;
  void become_child() noexcept override { own_.part_from_parent(); }
  [[nodiscard]] std::optional<MemoryReport> report(const Peer& peer) const override;
  [[nodiscard]] std::string why_not_allocated() const override;

  /// Tells those who have been told of freed memory, where there was no memory for that before.
  unsigned poll() override;

 private:
  class Block;

  void told(const ArrivedCell& cell);
  void freed(const ArrivedCell& cell);
  void missed(const ArrivedCell& cell);

  /// Whether the descriptor of what is awaited is here now, or is waited for no more.
  void look_for(Peer& peer, std::uint32_t number);
  bool tell(Peer& peer, OwnAllocations::Entry& allocation);
  void free(std::uint32_t number) noexcept;
  /// False while there is no memory for saying it.
  bool tell_all_of_end(OwnAllocations::Entry& allocation) noexcept;
  [[nodiscard]] std::string why_not_shared() const;

  Links& links_;
  PollList& polled_;
  OwnAllocations own_;
  PeerMappings mappings_;
  std::uint64_t self_ = 0;  ///< names this process on its tickets; 0 before the first
  std::uint64_t tickets_ = 0;
  std::uint64_t apart_ = 0;     ///< allocations that are not shared
  std::string why_apart_;       ///< the last of them
  std::uint64_t not_left_ = 0;  ///< times that a descriptor could not be left in the box
  std::errc why_not_left_{};    ///< the last time
  /// What has become of the memory of a peer, by slot.
  struct Heard {
    bool mapped = false;
    std::string why_not;
  };
  std::vector<Heard> heard_;
};

}  // namespace isthmus
