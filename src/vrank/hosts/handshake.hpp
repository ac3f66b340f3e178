#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "vrank/hosts/address.hpp"
#include "vrank/hosts/own_descriptors.hpp"

/// What a process says that calls another, and what that answers. Both prove that they know the key of the
/// process that is called, and the key does not travel.
namespace isthmus::vrank {

using CallNonce = std::array<std::uint8_t, 16>;

enum class CallKind : std::uint32_t {
  line = 1,   ///< between a process and the first of the job: what ranks say at meetings, who has ended
  rank = 2,   ///< messages from one rank to another
  carry = 3,  ///< a rank that goes on in the process that is called
};

/// What a call is about.
struct CallSubject {
  CallKind kind;
  std::uint32_t from;   ///< who calls: a rank, or a process by its first
  std::uint32_t to;     ///< the rank that is called, or that comes
  std::uint32_t epoch;  ///< how often ranks have moved
};

struct CallGreeting {
  std::uint64_t magic;
  CallNonce nonce;
};
struct CallRequest {
  std::uint64_t magic;
  CallSubject subject;
  CallNonce nonce;
  std::uint64_t proof;  ///< of the greeting and this, without `proof`
};
struct CallAnswer {
  std::uint64_t magic;
  std::uint64_t proof;  ///< of the request
};
static_assert(sizeof(CallGreeting) == 24 && sizeof(CallRequest) == 48 && sizeof(CallAnswer) == 16);

/// Calls a process, at the first of its addresses where it answers; the socket blocks.
Result<OwnFd> call_process(const ProcessAddress& address, const CallSubject& subject, OwnDescriptors& own);

/// The other side, of one call.
class Reception {
 public:
  /// Greets who has connected; nothing where that cannot be done. The socket does not block.
  static std::optional<Reception> greet(OwnFd socket);

  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  enum class Heard : std::uint8_t { nothing_yet, proved, stranger };
  /// Takes what has come.
  Heard hear(const wire::JobKey& key);
  [[nodiscard]] const CallSubject& subject() const noexcept { return request_.subject; }
  /// Answers, and has the socket from now on; empty where that cannot be done.
  OwnFd accept(const wire::JobKey& key);

 private:
  explicit Reception(OwnFd socket) noexcept : socket_(std::move(socket)) {}

  OwnFd socket_;
  CallGreeting greeting_{};
  CallRequest request_{};
  std::size_t received_ = 0;
};

/// All `bytes`, as they come; false where they do not.
[[nodiscard]] bool read_whole(int socket, void* to, std::size_t bytes) noexcept;
[[nodiscard]] bool write_whole(int socket, const void* from, std::size_t bytes) noexcept;

}  // namespace isthmus::vrank
