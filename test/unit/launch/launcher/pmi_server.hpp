#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "base/unique_fd.hpp"
#include "launch/launcher/pmi_place.hpp"

namespace isthmus::launch {

/// The other end of a rank's connection: a thread that answers each message. Its answers travel in single
/// bytes.
class PmiServer {
 public:
  /// The length of the first whole message in what has come; 0 while there is none.
  using Framing = std::function<std::size_t(const std::string& received)>;
  /// The answer to a message; empty closes the connection.
  using Answer = std::function<std::string(const std::string& message)>;

  PmiServer(Framing framing, Answer answer) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
    client_ = UniqueFd(ends[0]);
    thread_ = std::jthread([server = UniqueFd(ends[1]), framing = std::move(framing),
                            answer = std::move(answer)] { serve(server.get(), framing, answer); });
  }

  /// What the rank is given; once.
  PmiPlace place(std::uint32_t rank = 0, std::uint32_t size = 1) {
    return {.fd = std::move(client_), .rank = rank, .size = size, .job = "the-step"};
  }

  /// Until the connection is closed.
  void wait() { thread_.join(); }

 private:
  static void serve(int fd, const Framing& framing, const Answer& answer) {
    std::string received;
    char piece[512];
    for (;;) {
      const ssize_t got = ::read(fd, piece, sizeof piece);
      if (got <= 0) return;
      received.append(piece, static_cast<std::size_t>(got));
      while (const std::size_t bytes = framing(received)) {
        const std::string reply = answer(received.substr(0, bytes));
        received.erase(0, bytes);
        if (reply.empty()) return;
        for (const char& byte : reply)
          if (::send(fd, &byte, 1, MSG_NOSIGNAL) != 1) return;
      }
    }
  }

  UniqueFd client_;
  std::jthread thread_;
};

}  // namespace isthmus::launch
