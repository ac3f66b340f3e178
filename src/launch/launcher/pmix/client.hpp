#pragma once

#include <pmix.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "launch/launcher/key_values.hpp"

namespace isthmus::launch {

/// PMIx through libpmix: `srun --mpi=pmix`, Open MPI's orterun and PRRTE's prun are its servers.
/// Source: the PMIx standard 4.1.
class PmixClient final : public KeyValues {
 public:
  static Result<std::unique_ptr<KeyValues>> connect();

  Result<> put(std::string_view key, std::string_view value) override;
  Result<> fence() override;
  Result<std::string> get(std::uint32_t rank, std::string_view key) override;
  [[noreturn]] void abort(int code, std::string_view line) noexcept override;
  Result<> finalize() override;

 private:
  PmixClient(const pmix_proc_t& self, JobFacts facts) noexcept : KeyValues(std::move(facts)), self_(self) {}

  pmix_proc_t self_;
};

}  // namespace isthmus::launch
