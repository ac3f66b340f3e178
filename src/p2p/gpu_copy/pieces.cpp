#include "p2p/gpu_copy/pieces.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "datatype/cursor.hpp"

namespace isthmus {
namespace {

/// The runs of memory of a payload, in order, of which the first `bytes` bytes are wanted.
class Runs {
 public:
  Runs(const Payload& payload, std::uint64_t bytes) : payload_(payload), left_(bytes) {
    if (payload.type) cursor_.emplace(*payload.type, payload.data, payload.count);
  }
  /// The rest of the current run, or the next one; nothing at the end.
  std::optional<Segment> get() {
    if (run_.bytes == 0) {
      if (left_ == 0) return std::nullopt;
      if (cursor_) {
        std::array<Segment, 1> next;
        if (cursor_->segments(next, left_) == 0) return std::nullopt;
        run_ = next[0];
      } else {
        run_ = {payload_.data, left_};
      }
      left_ -= run_.bytes;
    }
    return run_;
  }
  void take(std::size_t bytes) {
    run_.data += bytes;
    run_.bytes -= bytes;
  }

 private:
  const Payload& payload_;
  std::optional<Cursor> cursor_;
  std::uint64_t left_;
  Segment run_{nullptr, 0};
};

}  // namespace

std::vector<CopyPiece> pieces_of(const Payload& from, const Payload& to, std::uint64_t bytes) {
  Runs sources(from, bytes);
  Runs targets(to, bytes);
  std::vector<CopyPiece> pieces;
  for (;;) {
    const auto source = sources.get();
    const auto target = targets.get();
    if (!source || !target) return pieces;
    const std::size_t size = std::min(source->bytes, target->bytes);
    pieces.push_back({target->data, source->data, size});
    sources.take(size);
    targets.take(size);
  }
}

}  // namespace isthmus
