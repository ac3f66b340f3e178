#pragma once

#include <array>
#include <cstdint>

#include "wire/wait.hpp"

namespace isthmus {

class Idle;
class Request;

/// Collects what a wait is for, in a report.
class WaitItems {
 public:
  explicit WaitItems(wire::WaitReport& report) noexcept : report_(report) {}
  WaitItems(const WaitItems&) = delete;
  WaitItems& operator=(const WaitItems&) = delete;

  /// Where there is no room it is counted.
  void add(const wire::WaitItem& item) noexcept;
  /// A send or a receive, once; nothing where it is complete.
  void add(const Request& request, std::uint32_t flags) noexcept;
  /// One of those that are awaited is enough.
  void one_is_enough() noexcept { report_.any = 1; }

 private:
  wire::WaitReport& report_;
  std::array<const Request*, 24> requests_{};
  std::size_t count_ = 0;
};

/// What a wait is for. Who begins the wait names it by two words, and is asked only when it has become long.
struct WaitSubject {
  void (*say)(const void* what, WaitItems& items) noexcept = nullptr;  ///< null: nobody waits for anything
  const void* what = nullptr;                                          ///< lives as long as the wait

  /// A wait of which nothing is known but that it is one.
  static WaitSubject unnamed() noexcept {
    return {[](const void*, WaitItems&) noexcept {}, nullptr};
  }
  static WaitSubject of(const Request& request) noexcept { return {&say_request, &request}; }

 private:
  static void say_request(const void* what, WaitItems& items) noexcept;
};

/// Tells in the region what this rank waits for, once a wait has become long: who looks at a job that hangs
/// needs no help of its ranks then. A wait that is over before that costs nothing. Guarded by the engine's
/// lock.
///
/// Where several threads of the rank wait, the one that began to tell first is the one that is told of, and
/// the others are counted.
class WaitTelling {
 public:
  /// Who knows more of a wait than its subject.
  class Witness {
   public:
    /// The MPI function that this thread is in, null where that is not known. Called without the lock.
    virtual const char* call() noexcept { return nullptr; }
    virtual void say_wait(wire::WaitReport& report, WaitItems& items) noexcept = 0;

   protected:
    ~Witness() = default;
  };

  /// `messages` is asked first. The board lies in the region, and must outlive this.
  WaitTelling(wire::WaitBoard& board, Witness& messages) noexcept : board_(board), messages_(messages) {}
  WaitTelling(const WaitTelling&) = delete;
  WaitTelling& operator=(const WaitTelling&) = delete;

  /// Null: none.
  void set_program(Witness* program) noexcept { program_ = program; }
  [[nodiscard]] Witness* program() const noexcept { return program_; }

  /// How a wait of this thread begins to be told; `tell` follows.
  void begin() noexcept { ++waits_; }
  /// Writes what there is to say, if it has changed. `began`, `now`: nanoseconds of the steady clock.
  void tell(const Idle& wait, const WaitSubject& subject, const char* call, std::int64_t began,
            std::int64_t now) noexcept;
  void end(const Idle& wait) noexcept;

 private:
  wire::WaitBoard& board_;
  Witness& messages_;
  Witness* program_ = nullptr;
  const Idle* speaker_ = nullptr;
  std::uint32_t waits_ = 0;
  wire::WaitReport last_{};
};

}  // namespace isthmus
