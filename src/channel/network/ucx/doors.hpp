#pragma once

#include <ucs/type/status.h>

#include <set>
#include <vector>

namespace isthmus::network {

/// The TCP sockets on which UCX takes up connections of peers. A thread of UCX's does so at any moment; where
/// the process may open no file then, it closes the socket for good or ends the process (1.13: 6 of 8 runs in
/// which the peer connects while the program computes). So they are kept shut, and opened from `poll` once
/// there is room; who knocks meanwhile waits in the kernel's queue. For one thread at a time.
class Doors {
 public:
  Doors() = default;
  /// The sockets of this process that listen now.
  static std::set<int> listening();
  /// Shuts those that have come to listen since `before`, and that UCX knows.
  explicit Doors(const std::set<int>& before);

  /// Each is readable when somebody knocks.
  [[nodiscard]] const std::vector<int>& sockets() const { return sockets_; }
  /// Whether somebody knocks: one system call, none without sockets.
  [[nodiscard]] bool somebody_knocks() const;
  void open() { turn(true); }
  void shut() { turn(false); }

 private:
  /// Does nothing where they are so already.
  void turn(bool open);

  std::vector<int> sockets_;  ///< UCX's
  bool open_ = true;
};

}  // namespace isthmus::network
