#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "vrank/hosts/address.hpp"
#include "vrank/hosts/own_descriptors.hpp"

namespace isthmus::vrank {

/// Connects to a process, at whichever of its addresses answers: one that does not is not waited for before
/// the next is tried (RFC 8305, section 5). For one thread.
class Dialer {
 public:
  Dialer(const ProcessAddress& address, OwnDescriptors& own) noexcept : address_(address), own_(own) {}

  /// The next connection; its socket blocks. Empty: no address is left, and `reasons` says why.
  OwnFd next();
  /// Why a connection was of no use.
  void note(const std::string& reason);
  [[nodiscard]] std::string reasons() const { return reasons_.empty() ? "it has no address" : reasons_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Attempt {
    OwnFd socket;
    Clock::time_point end;
  };

  /// Begins to connect to the next address; the socket, where it is connected at once.
  OwnFd begin();
  /// Waits until an attempt has ended, or one more is to begin.
  void wait() const;
  /// The first connection that has been made; what has failed is forgotten.
  OwnFd take_made();
  void fail_with(int error);

  const ProcessAddress& address_;
  OwnDescriptors& own_;
  std::size_t begun_ = 0;  ///< of the addresses
  std::vector<Attempt> attempts_;
  Clock::time_point next_begin_;
  std::string reasons_;
};

}  // namespace isthmus::vrank
