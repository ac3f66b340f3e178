#include "p2p/message/request_pool.hpp"

namespace isthmus {

void RequestPool::grow() {
  chunks_.reserve(chunks_.size() + 1);
  auto chunk = std::make_unique<std::array<Request, chunk_size>>();
  const auto first = static_cast<std::uint32_t>(chunks_.size() * chunk_size);
  for (std::size_t i = chunk_size; i-- > 0;) {
    Request& request = (*chunk)[i];
    request.index = first + static_cast<std::uint32_t>(i);
    request.generation = 1;
    request.queued.next = free_;
    free_ = &request;
  }
  chunks_.push_back(std::move(chunk));
}

namespace {

/// What few requests have.
[[gnu::noinline]] void let_go(Request& request) noexcept {
  request.cursor.reset();
  request.staging.reset();
  request.gpu.reset();
  request.type = {};
  request.owner = {};
}

}  // namespace

void RequestPool::reset(Request& request) noexcept {
  request.kind = Request::Kind::none;
  request.generation = (request.generation + 1) & generation_mask;
  request.complete = request.cancelled = request.matched = request.synchronous = request.orphan =
      request.unsent = request.released = request.exhausted = false;
  request.memory = MemoryKind::pageable;
  request.status = {};
  request.peer = nullptr;
  request.transfer = Request::Transfer::none;
  request.parts_left = 0;
  request.mark = {};
  request.moved = request.limit = 0;
  if (request.cursor || request.staging || request.gpu || request.type) [[unlikely]]
    return let_go(request);
  if (const RefCounted* const owner = request.owner.leak()) owner->release();
}

}  // namespace isthmus
