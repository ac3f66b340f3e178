#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace isthmus::launch {

/// What a launcher says of a process and its job.
struct JobFacts {
  std::string_view protocol;  ///< how it speaks, for people: "PMI-1", "PMI-2", "PMIx"; a literal
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  /// MPI_UNIVERSE_SIZE and MPI_APPNUM; -1 where the launcher does not say.
  std::int32_t universe = -1;
  std::int32_t appnum = -1;
  /// The same text in all processes of this job, and in those of no other job that runs now.
  std::string job = {};
};

/// What a launcher of several hosts gives a process: its rank, and a space of keys and values through which
/// the processes of the job find each other. PMI-1, PMI-2 and PMIx are behind it. One thread at a time.
class KeyValues {
 public:
  virtual ~KeyValues() = default;

  [[nodiscard]] std::string_view protocol() const noexcept { return facts_.protocol; }
  [[nodiscard]] std::uint32_t rank() const noexcept { return facts_.rank; }
  [[nodiscard]] std::uint32_t size() const noexcept { return facts_.size; }
  [[nodiscard]] std::int32_t universe() const noexcept { return facts_.universe; }
  [[nodiscard]] std::int32_t appnum() const noexcept { return facts_.appnum; }
  [[nodiscard]] std::string_view job() const noexcept { return facts_.job; }

  /// Publishes `value` (any bytes, any length) as `key` of this process (letters, digits and '-', at most
  /// 32), for others to `get` after the next `fence`.
  virtual Result<> put(std::string_view key, std::string_view value) = 0;
  /// Waits until all processes have come here. Collective.
  virtual Result<> fence() = 0;
  /// The value of `key` that process `rank` had put before the last fence.
  virtual Result<std::string> get(std::uint32_t rank, std::string_view key) = 0;

  /// Ends the whole job with `code`, and this process.
  [[noreturn]] virtual void abort(int code, std::string_view line) noexcept = 0;
  /// Tells the launcher that this process ends as it should. Collective with some launchers. Nothing else may
  /// follow.
  virtual Result<> finalize() = 0;

 protected:
  explicit KeyValues(JobFacts facts) noexcept : facts_(std::move(facts)) {}
  /// For what a launcher tells only when it is asked.
  [[nodiscard]] JobFacts& facts() noexcept { return facts_; }

 private:
  JobFacts facts_;
};

/// The launcher that this process's environment names (`PMI_FD`, `PMIX_RANK`, ...); null where there is none.
/// An environment that names one which cannot be reached is an error with a sentence for the user. The
/// variables and descriptors are kept from programs that this process will start.
Result<std::unique_ptr<KeyValues>> find_key_values();

/// Keeps the descriptor, and the variables but for PMI_RANK and PMI_SIZE, from programs that this process
/// will start, without using them.
void forget_key_values();

/// Whether environment variable `name` is one by which a launcher reaches its ranks through PMI or PMIx.
bool is_key_values_variable(std::string_view name) noexcept;

}  // namespace isthmus::launch
