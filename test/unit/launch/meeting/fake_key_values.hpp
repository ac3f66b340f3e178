#pragma once

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "launch/launcher/key_values.hpp"

namespace isthmus::launch {

/// A launcher's key-value space for ranks that are threads of one process. Values become visible at fences,
/// as with the real ones.
class FakeSpace {
 public:
  explicit FakeSpace(std::uint32_t size) : size_(size), present_(size) {}

  void put(std::uint32_t rank, std::string_view key, std::string_view value) {
    const std::lock_guard lock(mutex_);
    pending_[{rank, std::string(key)}] = value;
  }
  void fence() {
    std::unique_lock lock(mutex_);
    const unsigned generation = generation_;
    ++waiting_;
    pass_if_all();
    passed_.wait(lock, [&] { return generation_ != generation; });
  }
  /// A rank has died: the others do not wait for it any more.
  void leave() {
    const std::lock_guard lock(mutex_);
    --present_;
    pass_if_all();
  }
  Result<std::string> get(std::uint32_t rank, std::string_view key) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find({rank, std::string(key)});
    if (found == values_.end()) return fail(ErrorClass::other, "no such key");
    return found->second;
  }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] unsigned fences() const { return generation_; }

 private:
  void pass_if_all() {
    if (waiting_ == 0 || waiting_ < present_) return;
    waiting_ = 0;
    values_.insert(pending_.begin(), pending_.end());
    for (auto& [key, value] : pending_)
      values_[key] = value;
    ++generation_;
    passed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable passed_;
  const std::uint32_t size_;
  std::uint32_t present_;
  std::uint32_t waiting_ = 0;
  unsigned generation_ = 0;
  std::map<std::pair<std::uint32_t, std::string>, std::string> pending_, values_;
};

/// One rank's view of it.
class FakeKeyValues final : public KeyValues {
 public:
  FakeKeyValues(FakeSpace& space, std::uint32_t rank)
      : KeyValues({.protocol = "fake", .rank = rank, .size = space.size(), .job = "fake-job"}),
        space_(space) {}

  Result<> put(std::string_view key, std::string_view value) override {
    space_.put(rank(), key, value);
    return {};
  }
  Result<> fence() override {
    space_.fence();
    return {};
  }
  Result<std::string> get(std::uint32_t rank, std::string_view key) override { return space_.get(rank, key); }
  [[noreturn]] void abort(int /*code*/, std::string_view /*line*/) noexcept override { std::abort(); }
  Result<> finalize() override { return {}; }

 private:
  FakeSpace& space_;
};

}  // namespace isthmus::launch
