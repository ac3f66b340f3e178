#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "p2p/message/request.hpp"

namespace isthmus {

/// Owns all requests of an engine, in chunks that never move or go away, so that any index a program or a
/// peer hands in can be looked up safely. Guarded by the engine's lock.
class RequestPool {
 public:
  /// A request with a new generation, as constructed but for `kind` and for what every operation sets before
  /// it looks at it: envelope, payload, context, and whatever belongs to a `transfer`.
  Request* take(Request::Kind kind) {
    if (!free_) [[unlikely]]
      grow();
    Request* request = free_;
    free_ = request->queued.next;
    request->queued.next = nullptr;
    request->kind = kind;
    ++living_;
    return request;
  }

  /// So that the next two `take`s need no memory.
  void reserve_two() {
    if (!free_ || !free_->queued.next) [[unlikely]]
      grow();
  }

  /// Puts a request back; its cookies and handles are invalid from now on.
  void give_back(Request* request) noexcept {
    reset(*request);
    request->queued.next = free_;
    free_ = request;
    --living_;
  }

  /// The living request of that index and generation, or null.
  [[nodiscard]] Request* find(std::uint32_t index, std::uint32_t generation) noexcept {
    const std::size_t chunk = index / chunk_size;
    if (chunk >= chunks_.size()) [[unlikely]]
      return nullptr;
    Request& request = (*chunks_[chunk])[index % chunk_size];
    return request.generation == generation && request.kind != Request::Kind::none ? &request : nullptr;
  }
  [[nodiscard]] Request* find(wire::Cookie cookie) noexcept {
    return find(static_cast<std::uint32_t>(cookie), static_cast<std::uint32_t>(cookie >> 32));
  }

  /// The living request of that index, whatever its generation, or null.
  [[nodiscard]] Request* at(std::uint32_t index) noexcept {
    if (index / chunk_size >= chunks_.size()) return nullptr;
    Request& request = (*chunks_[index / chunk_size])[index % chunk_size];
    return request.kind != Request::Kind::none ? &request : nullptr;
  }

  /// Whether `holds` is true of a living request.
  template <class Predicate>
  [[nodiscard]] bool any_of(Predicate holds) const {
    for (const auto& chunk : chunks_)
      for (const Request& request : *chunk)
        if (request.kind != Request::Kind::none && holds(request)) return true;
    return false;
  }

  /// All living ones. `visit` may end requests, and must not take any.
  template <class Visit>
  void for_each(Visit visit) {
    for (const auto& chunk : chunks_)
      for (Request& request : *chunk)
        if (request.kind != Request::Kind::none) visit(request);
  }

  [[nodiscard]] std::size_t living() const noexcept { return living_; }

 private:
  static constexpr std::size_t chunk_size = 128;
  /// 24 bits, because that is what a handle of the C edge has room for.
  static constexpr std::uint32_t generation_mask = 0xff'ffff;

  void grow();
  static void reset(Request& request) noexcept;

  std::vector<std::unique_ptr<std::array<Request, chunk_size>>> chunks_;
  Request* free_ = nullptr;
  std::size_t living_ = 0;
};

}  // namespace isthmus
