#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "launch/launcher/key_values.hpp"
#include "launch/launcher/pmi_place.hpp"
#include "launch/launcher/socket.hpp"

namespace isthmus::launch {

/// PMI-1, as MPICH's Hydra speaks it: lines of `name=value` words on a socket, one answer to each request.
/// Source: P. Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale
/// Systems", EuroMPI 2010, and what Hydra 4.0 says.
class Pmi1 final : public KeyValues {
 public:
  static Result<std::unique_ptr<KeyValues>> connect(PmiPlace place);

  Result<> put(std::string_view key, std::string_view value) override;
  Result<> fence() override;
  Result<std::string> get(std::uint32_t rank, std::string_view key) override;
  [[noreturn]] void abort(int code, std::string_view line) noexcept override;
  Result<> finalize() override;

 private:
  explicit Pmi1(PmiPlace place) noexcept
      : KeyValues({.protocol = "PMI-1", .rank = place.rank, .size = place.size}),
        socket_(std::move(place.fd)) {}

  Result<> introduce();
  /// The line that answers `request`; it must be of the command `answer` and must not tell an error.
  Result<std::string> ask(const std::string& request, std::string_view answer,
                          LauncherSocket::Milliseconds within = LauncherSocket::patience);

  LauncherSocket socket_;
  std::size_t longest_value_ = 0;
};

}  // namespace isthmus::launch
