#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "coll/call/coll.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "p2p/message/message.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus::coll {

/// What a collective does with a buffer.
enum class Use : std::uint8_t { read, write, both };

/// Buffers of host memory in place of those arguments of one collective call that lie in GPU memory, laid out
/// alike. Only bytes that belong to blocks are copied, so that gaps keep what they have. Managed memory has
/// them wherever its pages are: members that copy straight between processes would lose what CUDA moves.
class StandIns {
 public:
  explicit StandIns(GpuMessages& gpu) : gpu_(gpu) {}

  /// The same argument, or one with a stand-in for its buffer; `blocks`: how many there are in it.
  In of(const In& in, int blocks, Use use = Use::read);
  Out of(const Out& out, int blocks, Use use = Use::write);
  InV of(const InV& in, int blocks, Use use = Use::read);
  OutV of(const OutV& out, int blocks, Use use = Use::write);
  InW of(const InW& in, int blocks, Use use = Use::read);
  OutW of(const OutW& out, int blocks, Use use = Use::write);

  /// Copies what will be read. Where an argument cannot be told or copied the collective goes on all the
  /// same, with whatever bytes there are, because other members wait for it; `finish` tells what was wrong.
  void fetch();
  /// Nothing has been wrong so far.
  [[nodiscard]] bool is_well() const noexcept { return trouble_.has_value(); }
  /// Copies what the collective has written, unless something has failed; the first error.
  Result<> finish(Result<> done);

 private:
  struct Block {
    Payload original, host;
  };
  struct StandIn {
    Use use;
    Buffer near;  ///< what the argument lies in, as it was seen at first
    PinnedBuffer pinned;
    std::unique_ptr<std::byte[]> plain;  ///< where that is short, or much would be pinned
    std::vector<Block> blocks;
  };
  Result<> copy(const StandIn& stand_in, const Payload& from, const Payload& to);
  void* replace(const void* buffer, const std::vector<Payload>& blocks, Use use);
  template <class Argument>
  Argument of_argument(Argument argument, int blocks, Use use);

  GpuMessages& gpu_;
  std::vector<StandIn> stand_ins_;
  Result<> trouble_;
};

}  // namespace isthmus::coll
