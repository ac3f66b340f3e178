#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "p2p/progress/lock.hpp"

namespace isthmus {

class Engine;

/// Makes an engine's progress while the program computes (ISTHMUS_PROGRESS=thread). It works only while
/// something is under way and no thread of the program waits in MPI, which would do the same; else it sleeps
/// in the kernel, until a thread that leaves MPI leaves something behind. Where ranks do not wake each other
/// it looks again and again, with naps that get longer. On a core that nobody else has it looks for longer
/// before it naps or sleeps.
class ProgressThread final : public EngineLock::Watcher {
 public:
  /// `engine` must outlive it, with its lock enabled.
  static Result<std::unique_ptr<ProgressThread>> start(Engine& engine);
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  /// With the engine's lock held, which is let go of meanwhile.
  ~ProgressThread();

  void leaving() noexcept override;

 private:
  explicit ProgressThread(Engine& engine) : engine_(engine) {}
  void run() noexcept;
  /// With the lock held: whether there is something to do that nobody else does.
  [[nodiscard]] bool is_needed() const noexcept;
  void park();

  /// Of `state_`, which is set to the last two with the lock held.
  static constexpr std::uint32_t works = 0, lingers = 1, parked = 2;

  Engine& engine_;
  std::atomic<std::uint32_t> state_{works};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace isthmus
