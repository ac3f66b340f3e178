#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "launch/key_values.hpp"
#include "launch/launcher_socket.hpp"
#include "launch/pmi_place.hpp"

namespace isthmus::launch {

/// PMI-1, as MPICH's Hydra speaks it: lines of `name=value` words on a socket, one answer to each request.
/// Source: P. Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale
/// Systems", EuroMPI 2010, and what Hydra 4.0 says.
class Pmi1 final : public KeyValues {
 public:
  static Result<std::unique_ptr<KeyValues>> connect(PmiPlace place);

  [[nodiscard]] std::string_view protocol() const noexcept override { return "PMI-1"; }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return size_; }
  [[nodiscard]] std::int32_t universe() const noexcept override { return universe_; }
  [[nodiscard]] std::int32_t appnum() const noexcept override { return appnum_; }
  [[nodiscard]] std::string_view job() const noexcept override { return space_; }

  Result<> put(std::string_view key, std::string_view value) override;
  Result<> fence() override;
  Result<std::string> get(std::uint32_t rank, std::string_view key) override;
  [[noreturn]] void abort(int code, std::string_view line) noexcept override;
  Result<> finalize() override;

 private:
  explicit Pmi1(PmiPlace place) noexcept
      : socket_(std::move(place.fd)), rank_(place.rank), size_(place.size) {}

  Result<> introduce();
  /// The line that answers `request`; it must be of the command `answer` and must not tell an error.
  Result<std::string> ask(const std::string& request, std::string_view answer,
                          LauncherSocket::Milliseconds within = LauncherSocket::patience);

  LauncherSocket socket_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::int32_t universe_ = -1;
  std::int32_t appnum_ = -1;
  std::string space_;  ///< the name of the job's key-value space
  std::size_t longest_value_ = 0;
};

}  // namespace isthmus::launch
