#pragma once

#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "launch/visit/broker_socket.hpp"
#include "wire/visit.hpp"

/// The two sides of `wire/visit.hpp`.
namespace isthmus::launch {

/// What a broker hands out.
struct Handed {
  UniqueFd region;
  UniqueFd box;  ///< empty where the region has none
};

/// Who is asked, by whom, and what both must know.
struct Inquiry {
  std::uint64_t socket = 0;
  std::uint32_t rank = 0;
  wire::JobKey key{};
};

/// Asks who listens at `address` for the job's region and its box. Waits until there is one, `seconds` at
/// most. The reason of a failure is a part of a sentence: "connection refused".
Result<Handed> visit(const BrokerAddress& address, const Inquiry& inquiry, int seconds);

/// The broker's side of one visit.
class Reception {
 public:
  /// Greets who has connected to `socket`; nothing where that cannot be done.
  static std::optional<Reception> greet(int socket);

  /// Takes the request. False where something else has come, or nothing more will.
  bool hear(int socket, std::uint64_t own_socket);
  [[nodiscard]] bool has_request() const noexcept { return static_cast<bool>(reply_); }
  [[nodiscard]] std::uint32_t rank() const noexcept { return request_.rank; }

  /// Whether the request comes from somebody who has the key.
  [[nodiscard]] bool is_proved(const wire::JobKey& key) const noexcept;
  /// Answers with `region` and, if it is not -1, `box`, as `rank`.
  void answer(const wire::JobKey& key, std::uint32_t rank, int region, int box) const noexcept;

 private:
  wire::VisitGreeting greeting_;
  wire::VisitRequest request_;
  UniqueFd reply_;
};

}  // namespace isthmus::launch
