#include "coll/gpu/hosts/conveyor.hpp"

#include <algorithm>
#include <deque>
#include <utility>

namespace isthmus::coll {

void Segment::add(Result<PendingCopy> copy) {
  if (copy)
    copies_.push_back(std::move(*copy));
  else if (failed_)
    failed_ = std::unexpected(std::move(copy).error());
}

bool Segment::is_copying() {
  while (!copies_.empty()) {
    auto done = copies_.back().is_done();
    if (done && !*done) return true;
    if (!done && failed_) failed_ = std::unexpected(std::move(done).error());
    copies_.pop_back();
  }
  return false;
}

bool Segment::is_over() {
  if (!over_) over_ = !is_copying() && (!messages_ || messages_->is_complete());
  return over_;
}

Result<> Segment::end() {
  if (messages_) {
    Result<> arrived = messages_->wait();
    if (failed_) failed_ = std::move(arrived);
    messages_.reset();
  }
  return std::exchange(failed_, {});
}

class Conveyor {
 public:
  Conveyor(const AcrossHosts& all, std::uint64_t segments, std::span<const Stage> stages)
      : all_(all), segments_(segments), stages_(stages) {}

  Result<> run() {
    for (;;) {
      while (next_ < segments_ && running_.size() < all_.slots().size()) {
        running_.emplace_back(next_, all_.slots()[next_ % all_.slots().size()].data());
        ++next_;
        stages_.front()(running_.back());
      }
      if (running_.empty()) return first_.take();
      if (!advance()) rest();
    }
  }

 private:
  /// Starts every stage that can be; whether there was any, or a segment has ended.
  bool advance() {
    bool moved = false;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      Segment& segment = running_[i];
      if (!segment.is_over()) continue;
      const std::size_t stage = segment.stage_ + 1;
      if (i > 0 && running_[i - 1].stage_ < stage) continue;
      first_.add(segment.end());
      segment.stage_ = stage;
      moved = true;
      if (stage == stages_.size()) continue;
      segment.over_ = false;
      stages_[stage](segment);
    }
    while (!running_.empty() && running_.front().stage_ == stages_.size())
      running_.pop_front();
    return moved;
  }

  void rest() {
    Engine& engine = all_.comm().engine();
    const auto waits = [](Segment& segment) { return !segment.over_; };
    // No message tells that a GPU is done.
    if (std::ranges::any_of(running_,
                            [&](Segment& segment) { return waits(segment) && segment.is_copying(); }))
      engine.progress_for_test();
    else
      engine.wait_for([&] {
        return std::ranges::any_of(running_,
                                   [&](Segment& segment) { return waits(segment) && segment.is_over(); });
      });
  }

  const AcrossHosts& all_;
  const std::uint64_t segments_;
  const std::span<const Stage> stages_;
  std::deque<Segment> running_;
  std::uint64_t next_ = 0;
  FirstError first_;
};

Result<> convey(const AcrossHosts& all, std::uint64_t segments, std::span<const Stage> stages) {
  return Conveyor(all, segments, stages).run();
}

}  // namespace isthmus::coll
