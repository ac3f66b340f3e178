#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "channel/network/port.hpp"
#include "wire/port.hpp"

namespace isthmus::network {

/// Notices within `silence_limit` that a peer is gone, whether it computes, waits or sleeps: a TCP connection
/// to each peer on which nothing is said after a hello, so that the kernels' keepalive probes run. A process
/// that ends closes it; a host that falls silent answers no probes.
///
/// UCX 1.13 does not do this: on TCP it relies on keepalive of connections that also carry data, and as long
/// as sent data is not acknowledged the kernel does not probe but retransmits for 15 minutes (tcp_retries2);
/// and a heartbeat of its own would be answered by processes only that are inside of MPI.
class Watch {
 public:
  /// Seconds of silence after which a peer's host is lost; 10 are allowed in all.
  static constexpr int silence_limit = 6;

  /// Listens on a TCP port of any local address. `token` as in `wire::PortAddress`.
  static Result<Watch> open(Identity self, std::uint64_t token);

  /// Where peers reach this watch: fills `watch_port` and `hosts`.
  void describe(wire::PortAddress& address) const;
  /// Begins to watch `peer`. What cannot be reached is not watched: the transports notice it.
  void begin(PeerId peer, const wire::PortAddress& address);
  /// Ends the watch over `peer`.
  void end(PeerId peer);

  struct Loss {
    PeerId peer;
    bool closed;  ///< by the peer's kernel, in good order: what it sent before may still be on its way
                  ///< elsewhere
    std::string why;
  };
  /// What has happened since. Never blocks.
  std::vector<Loss> look();

  /// Readable when there is something to `look` at.
  [[nodiscard]] int descriptor() const { return events_.get(); }

 private:
  enum class State : std::uint8_t {
    connecting,
    asked,     ///< our hello is sent, the answer awaited
    accepted,  ///< the peer's hello is awaited
    met,
  };
  struct Line {
    UniqueFd socket;
    State state;
    PeerId peer;          ///< unless `accepted`
    std::uint64_t token;  ///< which the hello has to name
  };

  Watch(Identity self, std::uint64_t token, UniqueFd listener, UniqueFd events, std::uint16_t port)
      : self_(self), token_(token), port_(port), listener_(std::move(listener)), events_(std::move(events)) {}

  void accept_all();
  void add(Line line, std::uint32_t events);
  void on_event(int socket, std::vector<Loss>& losses);
  bool say_hello(Line& line);
  /// Whether the line may stay.
  bool hear(Line& line, int& error);
  [[nodiscard]] bool has_other_line(PeerId peer, int socket) const;

  Identity self_;
  std::uint64_t token_;
  std::uint16_t port_;
  UniqueFd listener_;
  UniqueFd events_;  ///< epoll
  std::unordered_map<int, Line> lines_;
};

}  // namespace isthmus::network
