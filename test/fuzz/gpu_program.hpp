#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "arenas.hpp"
#include "datatype/make/construct.hpp"
#include "input.hpp"
#include "p2p/engine.hpp"

namespace isthmus::fuzz {

inline const Datatype& gaps() {
  static const Ref<Datatype> type = [] {
    auto made = hvector_type(4, 16, 24, Datatype::basic(Basic::byte), Form::small);
    require(made && (*made)->commit(), "no datatype");
    return *made;
  }();
  return *type;
}

/// A program's buffers, in GPU memory and in the host's, and its requests. Outlives the engine.
class GpuProgram {
 public:
  struct Pending {
    Request* request;
    std::unique_ptr<std::byte[]> memory;
    bool needs_peer;  ///< a send to one; receives may be of others, too
  };
  /// What becomes of the host's memory when a send is over at once.
  enum class WhenOver : bool { freed, kept };

  /// Of so many buffers in each kind of GPU memory, `on_host` are the host's.
  GpuProgram(Input& input, unsigned on_host, WhenOver when_over)
      : input_(input), on_host_(on_host), when_over_(when_over) {}

  [[nodiscard]] const std::vector<Pending>& requests() const { return requests_; }

  /// Memory that nobody has, with nobody's bytes around it.
  Payload payload(std::uint64_t bytes, bool is_sent) {
    const unsigned where = input_.below(Gpus::kinds + on_host_);
    const bool has_gaps = input_.below(6) == 0 && bytes >= 64;
    const std::uint64_t count = has_gaps ? bytes / 64 : 1;
    const std::uint64_t room = has_gaps ? count * 88 : bytes;
    std::byte* const data = where < Gpus::kinds ? arenas_.take(static_cast<Gpus::Kind>(where), room, is_sent)
                                                : take_of_host(room);
    if (!data) return Payload::of(data, 0);
    return has_gaps ? Payload::of(data, static_cast<std::int64_t>(count), gaps()) : Payload::of(data, bytes);
  }
  /// The request that has been started with the last payload; null: it is over.
  void keep(Request* request, bool needs_peer) {
    std::unique_ptr<std::byte[]> memory = std::move(fresh_);
    if (request)
      requests_.push_back({request, std::move(memory), needs_peer});
    else if (memory && when_over_ == WhenOver::kept)
      orphaned_.push_back(std::move(memory));
  }
  /// Cancels a request, or frees it before its end.
  void change_request(Engine& engine) {
    if (requests_.empty()) return;
    const auto at = requests_.begin() + static_cast<std::ptrdiff_t>(input_.below(256) % requests_.size());
    if (input_.below(3) != 0) return engine.cancel(*at->request);
    end(engine, *at);
    requests_.erase(at);
  }
  /// Before peers are lost: what their loss does not end.
  void cancel_what_needs_no_peer(Engine& engine) const {
    for (const Pending& each : requests_)
      if (!each.request->complete && !each.needs_peer) engine.cancel(*each.request);
  }
  /// After that: all requests end within 5 s, and are freed.
  void end_all(Engine& engine) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!std::ranges::all_of(requests_, [](const Pending& each) { return each.request->complete; })) {
      engine.progress();
      ::sched_yield();
      if (std::chrono::steady_clock::now() < until) continue;
      for (const auto& [request, memory, needs_peer] : requests_)
        if (!request->complete)
          std::fprintf(stderr, "kind %d transfer %d matched %d gpu %d limit %lu\n",
                       static_cast<int>(request->kind), static_cast<int>(request->transfer), request->matched,
                       request->gpu != nullptr, static_cast<unsigned long>(request->limit));
      require(false, "a request has not ended with its peer");
    }
    while (!requests_.empty()) {
      end(engine, requests_.back());
      requests_.pop_back();
    }
  }
  /// After the engine: nothing has been written but what was received, and no handle is left.
  void check(unsigned handles) { arenas_.check(handles); }

 private:
  std::byte* take_of_host(std::uint64_t bytes) {
    host_bytes_ += bytes;
    if (host_bytes_ > (16U << 20U)) return nullptr;
    fresh_ = std::make_unique<std::byte[]>(bytes);
    return fresh_.get();
  }
  void end(Engine& engine, Pending& pending) {
    const Request& request = *pending.request;
    if (!request.complete)
      orphaned_.push_back(std::move(pending.memory));
    else if (request.kind == Request::Kind::receive)
      require(request.status.bytes <= request.payload.bytes, "more has come than there is room for");
    engine.free(pending.request);
  }

  Input& input_;
  const unsigned on_host_;
  const WhenOver when_over_;
  Arenas arenas_;
  std::unique_ptr<std::byte[]> fresh_;
  std::vector<std::unique_ptr<std::byte[]>> orphaned_;  ///< of requests freed early
  std::uint64_t host_bytes_ = 0;
  std::vector<Pending> requests_;
};

}  // namespace isthmus::fuzz
