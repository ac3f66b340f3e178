#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "comm/communicator.hpp"

namespace isthmus::coll {

/// How the members of an intracommunicator are spread over hosts. Processes are on one host if they share a
/// region. Hosts are numbered in order of their first members, members of a host in order of their ranks; the
/// first one leads.
///
/// The same on all members, but for what says "own".
class Hierarchy {
 public:
  /// Collective, over messages; null where no two members are on one host, which all of them know then.
  static Result<std::unique_ptr<Hierarchy>> make(Communicator& comm);

  [[nodiscard]] int hosts() const noexcept { return static_cast<int>(leaders_.size()); }
  [[nodiscard]] int host_of(int rank) const noexcept { return host_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int index_of(int rank) const noexcept { return index_of_[static_cast<std::size_t>(rank)]; }
  /// All ranks, host by host.
  [[nodiscard]] std::span<const int> order() const noexcept { return order_; }
  /// Where the members of `host` begin in `order()`; for `hosts()`, its end.
  [[nodiscard]] int begin(int host) const noexcept { return begin_[static_cast<std::size_t>(host)]; }
  [[nodiscard]] int members(int host) const noexcept { return begin(host + 1) - begin(host); }
  [[nodiscard]] std::span<const int> ranks_of(int host) const noexcept {
    return order().subspan(static_cast<std::size_t>(begin(host)), static_cast<std::size_t>(members(host)));
  }

  /// Each host has as many members as any other.
  [[nodiscard]] bool is_even() const noexcept { return even_; }
  /// `order()` is the order of ranks.
  [[nodiscard]] bool in_order() const noexcept { return in_order_; }

  /// The first member of each host.
  [[nodiscard]] std::span<const int> leaders() const noexcept { return leaders_; }
  /// The same, but that `root` speaks for its host.
  [[nodiscard]] std::vector<int> speakers(int root) const;

  [[nodiscard]] int own_host() const noexcept { return own_host_; }
  /// The members of the own host, who share memory.
  [[nodiscard]] Communicator& local() const noexcept { return *local_; }
  /// The members of all hosts that have the own rank's index. Only where `is_even()`.
  [[nodiscard]] std::span<const int> slice() const noexcept { return slice_; }

 private:
  Hierarchy() = default;
  void number(std::span<const PeerId> places);

  std::vector<int> order_, begin_, host_of_, index_of_, leaders_, slice_;
  int own_host_ = 0;
  bool even_ = true;
  bool in_order_ = true;
  Ref<Communicator> local_;
};

}  // namespace isthmus::coll
