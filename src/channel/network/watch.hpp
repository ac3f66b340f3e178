#pragma once

#include <chrono>
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
/// that ends closes it; a host that falls silent answers no probes. A peer is lost by a line on which it has
/// proved itself, so what else stands behind its address loses nobody. Before it has, which takes a process
/// that is in MPI, it is lost when a host that took the connection has fallen silent and no other line to it
/// is left. Anyone may connect: strangers are few at a time, and cut off when they stay silent.
///
/// UCX 1.13 does not do this: on TCP it relies on keepalive of connections that also carry data, and as long
/// as sent data is not acknowledged the kernel does not probe but retransmits for 15 minutes (tcp_retries2);
/// and a heartbeat of its own would be answered by processes only that are inside of MPI.
class Watch {
 public:
  /// Seconds of silence after which a peer's host is lost; 10 are allowed in all.
  static constexpr int silence_limit = 6;
  /// Connections that have not said who they are: the oldest of more are closed.
  static constexpr std::size_t strangers_limit = 128;
  /// For a stranger to say so.
  static constexpr std::chrono::seconds stranger_patience{10};

  /// Listens on a TCP port of any local address. `token` as in `wire::PortAddress`. Raises this process's
  /// limit of open files where a job of that size may need it.
  static Result<Watch> open(Identity self, std::uint64_t token,
                            std::chrono::milliseconds patience = stranger_patience);

  /// Where peers reach this watch: fills `watch_port` and `hosts`.
  void describe(wire::PortAddress& address) const;
  /// Begins to watch `peer`, as soon as one of its addresses takes the connection. Where none does, as behind
  /// a firewall, it is not watched: the transports notice that they do not reach it.
  void begin(PeerId peer, const wire::PortAddress& address);
  /// Ends the watch over `peer`.
  void end(PeerId peer);

  struct Loss {
    PeerId peer;
    bool closed;  ///< by the peer's kernel, in good order: what it sent before may still be on its way
                  ///< elsewhere
    std::string why;
  };
  /// What has happened since. Never blocks. Where there is no memory, nothing of it is forgotten.
  std::vector<Loss> look();

  /// Readable when there is something to `look` at.
  [[nodiscard]] int descriptor() const { return events_.get(); }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t {
    connecting,
    asked,     ///< our hello is sent, the answer awaited
    accepted,  ///< the peer's hello is awaited
    met,
  };
  struct Line {
    UniqueFd socket;
    State state;
    PeerId peer;           ///< unless `accepted`
    std::uint64_t token;   ///< that of who accepts
    std::uint64_t nonce;   ///< of our hello
    bool silence = false;  ///< a host has fallen silent that may be the peer's, here or at another address
    Clock::time_point since = Clock::now();
  };

  Watch(Identity self, std::uint64_t token, std::uint16_t port, std::chrono::milliseconds patience)
      : self_(self), token_(token), port_(port), patience_(patience) {}

  void accept_all();
  bool make_room(int error);
  void listen_for(std::uint32_t events);
  void welcome(UniqueFd socket);
  [[nodiscard]] std::size_t strangers() const;
  bool drop_oldest_stranger();
  void drop_silent_strangers();
  void tick_while_needed();
  void on_tick();
  void add(Line line, std::uint32_t events);
  void on_event(int socket);
  bool say_hello(Line& line);
  bool answer(const Line& line, std::uint64_t nonce);
  /// Whether the line may stay.
  bool hear(Line& line, int& error);
  [[nodiscard]] bool has_other_line(PeerId peer, int socket) const;
  bool leaves_no_hope(Line& line, int error);

  Identity self_;
  std::uint64_t token_;
  std::uint16_t port_;
  std::chrono::milliseconds patience_;  ///< with strangers
  UniqueFd listener_;
  UniqueFd events_;  ///< epoll
  UniqueFd timer_;   ///< ticks once a second while there are strangers, or the listener rests
  bool ticks_ = false;
  bool rests_ = false;  ///< no descriptor is left for whom it would accept
  std::unordered_map<int, Line> lines_;
  std::vector<Loss> losses_;  ///< that nobody has looked at
};

}  // namespace isthmus::network
