#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "launch/launcher/key_values.hpp"
#include "launch/launcher/pmi_place.hpp"
#include "launch/launcher/socket.hpp"

namespace isthmus::launch {

/// PMI-2, as Slurm speaks it (`srun --mpi=pmi2`): after a first line, messages of `name=value;` behind their
/// length in six characters, one answer to each. Source: the MPICH wiki's "PMI v2 Wire Protocol", and what
/// Slurm 22.05 says.
class Pmi2 final : public KeyValues {
 public:
  static Result<std::unique_ptr<KeyValues>> connect(PmiPlace place);

  Result<> put(std::string_view key, std::string_view value) override;
  Result<> fence() override;
  Result<std::string> get(std::uint32_t rank, std::string_view key) override;
  [[noreturn]] void abort(int code, std::string_view line) noexcept override;
  Result<> finalize() override;

 private:
  explicit Pmi2(PmiPlace place) noexcept
      : KeyValues({.protocol = "PMI-2", .rank = place.rank, .size = place.size, .job = std::move(place.job)}),
        socket_(std::move(place.fd)) {}

  Result<> introduce();
  /// The answer to command `name` with `words` ("name=value;"...); an answer that tells an error is one.
  Result<std::string> ask(std::string_view name, const std::string& words = {},
                          LauncherSocket::Milliseconds within = LauncherSocket::patience);

  LauncherSocket socket_;
};

}  // namespace isthmus::launch
