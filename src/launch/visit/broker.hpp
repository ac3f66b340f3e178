#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "launch/visit/visit.hpp"

namespace isthmus::launch {

/// Hands descriptors of this process to others of its job that ask on a UNIX socket: to whoever proves to
/// have the job's key (`wire/visit.hpp`), and to nobody else. A thread of its own serves them, asleep in the
/// kernel while nobody calls; it and the sockets go with the broker.
///
/// Strangers are put up with: who has another key or sends anything else is cut off, who stays silent is
/// after a few seconds, or sooner when many do. After the greeting nothing that they send is answered.
class Broker {
 public:
  struct Limits {
    std::chrono::milliseconds silence{10'000};  ///< until a guest must have said what it wants
    std::chrono::milliseconds grace{1'000};     ///< the same while others wait for room
    std::size_t guests = 256;                   ///< at a time, all together; two descriptors each
  };
  /// A guest that has the key.
  struct Visitor {
    std::uint32_t rank;
    Credentials credentials;
  };

  /// Listens at the abstract address of `socket` (random, never used before); `rank` is this process's.
  static Result<std::unique_ptr<Broker>> open(std::uint64_t socket, std::uint32_t rank, Limits limits);
  static Result<std::unique_ptr<Broker>> open(std::uint64_t socket, std::uint32_t rank) {
    return open(socket, rank, Limits());
  }
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;
  ~Broker();

  /// Listens in `folder` too.
  Result<> open_folder(const std::string& folder);
  /// From now on guests are judged, by `key`; before, they wait.
  void admit(const wire::JobKey& key);
  /// From now on guests that ask for the job's region get `region`, and `box` with it; before, they wait.
  void offer_region(UniqueFd region, UniqueFd box = {});
  /// From now on they are sent away: the region has no descriptor.
  void offer_nothing();
  [[nodiscard]] std::vector<Visitor> visitors() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Guest {
    UniqueFd socket;
    Clock::time_point arrival;
    Reception reception;
    bool admitted = false;
    bool leaves = false;
  };

  Broker(std::uint64_t socket, std::uint32_t rank, Limits limits)
      : socket_(socket), rank_(rank), limits_(limits) {}

  void run();
  void wake() noexcept;
  [[nodiscard]] bool has_room() const { return guests_.size() < limits_.guests; }
  [[nodiscard]] std::chrono::milliseconds silence() const {
    return has_room() ? limits_.silence : limits_.grace;
  }
  [[nodiscard]] int patience() const;
  void let_in(int listener);
  void hear(Guest& guest) const;
  void serve(Guest& guest);

  const std::uint64_t socket_;
  const std::uint32_t rank_;
  const Limits limits_;
  UniqueFd wake_;
  mutable std::mutex mutex_;  ///< guards what follows, up to `visitors_`
  bool closing_ = false;
  std::optional<wire::JobKey> key_;
  UniqueFd region_, box_;
  bool has_nothing_ = false;
  std::vector<UniqueFd> listeners_;
  std::vector<std::string> paths_;
  std::vector<Visitor> visitors_;
  std::vector<Guest> guests_;  ///< the thread's alone
  std::thread thread_;
};

}  // namespace isthmus::launch
