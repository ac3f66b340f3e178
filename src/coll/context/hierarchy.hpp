#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "coll/team/team.hpp"
#include "comm/communicator.hpp"

namespace isthmus::coll {

/// How the members of an intracommunicator are spread over domains: hosts, or the sockets of one host.
/// Processes are on one host if they share a region. Domains are numbered in order of their first members,
/// members of a domain in order of their ranks; the first one leads.
///
/// The same on all members, but for what says "own".
class Hierarchy {
 public:
  /// By host. Collective, over messages.
  static Result<std::unique_ptr<Hierarchy>> of_hosts(Communicator& comm);
  /// By the sockets that members of a communicator on one host are bound to. Collective; null where one of
  /// them is bound to none, no two are on one, or all are, which all of them know then.
  static Result<std::unique_ptr<Hierarchy>> of_sockets(Communicator& comm, Team& team);

  [[nodiscard]] int count() const noexcept { return static_cast<int>(leaders_.size()); }
  [[nodiscard]] int domain_of(int rank) const noexcept { return domain_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int index_of(int rank) const noexcept { return index_of_[static_cast<std::size_t>(rank)]; }
  /// All ranks, domain by domain.
  [[nodiscard]] std::span<const int> order() const noexcept { return order_; }
  /// Where the members of `domain` begin in `order()`; for `count()`, its end.
  [[nodiscard]] int begin(int domain) const noexcept { return begin_[static_cast<std::size_t>(domain)]; }
  [[nodiscard]] int members(int domain) const noexcept { return begin(domain + 1) - begin(domain); }
  [[nodiscard]] std::span<const int> ranks_of(int domain) const noexcept {
    return order().subspan(static_cast<std::size_t>(begin(domain)),
                           static_cast<std::size_t>(members(domain)));
  }

  /// No two members are in one domain.
  [[nodiscard]] bool is_flat() const noexcept { return leaders_.size() == order_.size(); }
  /// Each domain has as many members as any other.
  [[nodiscard]] bool is_even() const noexcept { return even_; }
  /// `order()` is the order of ranks.
  [[nodiscard]] bool in_order() const noexcept { return in_order_; }

  /// The first member of each domain.
  [[nodiscard]] std::span<const int> leaders() const noexcept { return leaders_; }
  /// The same, but that `root` speaks for its domain.
  [[nodiscard]] std::vector<int> speakers(int root) const;

  [[nodiscard]] int own_domain() const noexcept { return own_domain_; }
  /// The members of the own domain, who share memory.
  [[nodiscard]] Communicator& local() const noexcept { return *local_; }
  /// The members of all domains that have the own rank's index. Only where `is_even()`.
  [[nodiscard]] std::span<const int> slice() const noexcept { return slice_; }

 private:
  /// By `places` of the members, equal for those of one domain.
  Hierarchy(Communicator& comm, std::span<const std::uint32_t> places);
  Result<> join(Communicator& comm, const ContextProposal& proposal);

  std::vector<int> order_, begin_, domain_of_, index_of_, leaders_, slice_;
  int own_domain_ = 0;
  bool even_ = true;
  bool in_order_ = true;
  Ref<Communicator> local_;
};

}  // namespace isthmus::coll
