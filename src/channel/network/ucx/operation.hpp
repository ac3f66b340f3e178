#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "channel/network/port.hpp"
#include "channel/network/ucx/prefix.hpp"
#include "wire/port.hpp"

namespace isthmus::network {

class UcxPort;

/// A send or a fetch that UCX has not completed.
struct Operation {
  enum class Kind : std::uint8_t {
    send,
    buffered,  ///< a send of which the owner has heard that it is complete
    fetch,
    offer,    ///< a send that its receiver asks for in pieces; UCX knows nothing of it
    piece,    ///< of the offer `parent`
    control,  ///< what nobody waits for
  };

  /// Bytes of a message that are copied behind its header, so that its send is complete at once whatever UCX
  /// does with it. Between 512 and 2048, the time of 1 KiB over TCP differed by no more than its repetitions
  /// did.
  static constexpr std::size_t inline_limit = 512;

  UcxPort* port = nullptr;
  PeerId peer = 0;
  Kind kind = Kind::send;
  bool given_up = false;  ///< the owner has been told of an error; UCX will still complete it
  bool is_over = false;   ///< UCX has completed it, and the owner could not be told
  Token token = 0;
  std::uint64_t bytes = 0;          ///< of a fetch or an offer
  const std::byte* data = nullptr;  ///< of an offer
  std::uint64_t offer = 0;          ///< its id
  std::uint32_t pieces = 0;         ///< of it that UCX has not completed
  bool done = false;                ///< its receiver wants no more
  Operation* parent = nullptr;
  std::unique_ptr<PrefixType> prefix{};  ///< of a fetch of less than there is
  std::size_t index = 0;                 ///< in `Operations::pending`
  std::array<std::byte, sizeof(wire::PortEnvelope) + header_limit + inline_limit>
      head;  ///< of a send; UCX reads it
};

/// The operations of a port; they are used again, so that a send allocates nothing once it has run.
class Operations {
 public:
  /// So that the next `count` times `take`, and all that follows from it, need no memory.
  void make_room(std::size_t count = 1) {
    while (free_.size() < count) [[unlikely]] {
      const std::size_t wanted = all_.size() + 1;
      if (free_.capacity() < wanted) free_.reserve(2 * wanted);
      if (pending_.capacity() < wanted) pending_.reserve(2 * wanted);
      free_.push_back(&all_.emplace_back());
    }
  }
  Operation& take() {
    make_room();
    Operation& operation = *free_.back();
    free_.pop_back();
    return operation;
  }
  void give_back(Operation& operation) { free_.push_back(&operation); }

  void add_pending(Operation& operation) {
    operation.index = pending_.size();
    operation.given_up = operation.is_over = false;
    pending_.push_back(&operation);
  }
  void remove_pending(Operation& operation) {
    Operation& last = *pending_.back();
    pending_[operation.index] = &last;
    last.index = operation.index;
    pending_.pop_back();
  }
  [[nodiscard]] const std::vector<Operation*>& pending() const { return pending_; }

 private:
  std::deque<Operation> all_;
  std::vector<Operation*> free_;
  std::vector<Operation*> pending_;
};

}  // namespace isthmus::network
