#pragma once

#include <pmix.h>

#include <cstdint>
#include <memory>
#include <string>

#include "launch/key_values.hpp"

namespace isthmus::launch {

/// PMIx through libpmix: `srun --mpi=pmix`, Open MPI's orterun and PRRTE's prun are its servers.
/// Source: the PMIx standard 4.1.
class PmixClient final : public KeyValues {
 public:
  static Result<std::unique_ptr<KeyValues>> connect();

  [[nodiscard]] std::string_view protocol() const noexcept override { return "PMIx"; }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return self_.rank; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return size_; }
  [[nodiscard]] std::int32_t universe() const noexcept override { return universe_; }
  [[nodiscard]] std::int32_t appnum() const noexcept override { return appnum_; }
  [[nodiscard]] std::string_view job() const noexcept override { return job_; }

  Result<> put(std::string_view key, std::string_view value) override;
  Result<> fence() override;
  Result<std::string> get(std::uint32_t rank, std::string_view key) override;
  [[noreturn]] void abort(int code, std::string_view line) noexcept override;
  Result<> finalize() override;

 private:
  PmixClient() = default;

  pmix_proc_t self_{};
  std::uint32_t size_ = 1;
  std::int32_t universe_ = -1;
  std::int32_t appnum_ = -1;
  std::string job_;
};

}  // namespace isthmus::launch
