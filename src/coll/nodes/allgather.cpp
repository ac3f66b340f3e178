#include <algorithm>
#include <type_traits>
#include <vector>

#include "coll/call/local.hpp"
#include "coll/messages/messages.hpp"
#include "coll/messages/ring.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::coll {

namespace {

/// Where blocks of any size lie when they are packed domain by domain.
struct DomainBlocks {
  std::vector<std::int64_t> counts, begins;                ///< by position in `Hierarchy::order()`
  std::vector<std::int64_t> domain_counts, domain_begins;  ///< by domain
  std::int64_t total = 0;
  std::uint64_t largest = 0;  ///< of a domain

  template <class Receive>
  DomainBlocks(const Hierarchy& domains, const Receive& receive) {
    for (int domain = 0; domain < domains.count(); ++domain) {
      domain_begins.push_back(total);
      for (const int rank : domains.ranks_of(domain)) {
        begins.push_back(total);
        counts.push_back(static_cast<std::int64_t>(block(receive, rank).bytes));
        total += counts.back();
      }
      domain_counts.push_back(total - domain_begins.back());
      largest = std::max(largest, static_cast<std::uint64_t>(domain_counts.back()));
    }
  }
};

/// `receive` itself where it is the packed form, else null.
std::byte* packed_form(const Hierarchy& domains, const Out& receive) {
  const Payload all =
      Payload::of(receive.buffer, receive.count * static_cast<int>(domains.order().size()), *receive.type);
  return domains.in_order() && all.type == nullptr ? all.data : nullptr;
}
std::byte* packed_form(const Hierarchy&, const OutV&) {
  return nullptr;
}

template <class Receive>
Result<> allgather_over_leaders(const Spread& all, const Receive& receive) {
  const Hierarchy& domains = all.domains;
  Communicator& local = domains.local();
  const DomainBlocks layout(domains, receive);
  std::byte* const form = packed_form(domains, receive);
  Bytes memory(form ? 0 : static_cast<std::uint64_t>(layout.total));
  std::byte* packed = form ? form : memory.data();

  const auto domain = static_cast<std::size_t>(domains.own_domain());
  const auto first = static_cast<std::size_t>(domains.begin(domains.own_domain()));
  const PackedIn mine(block(receive, all.comm.rank()));
  const std::int64_t count = layout.counts[first + static_cast<std::size_t>(local.rank())];
  std::byte* own = packed + layout.domain_begins[domain];
  const In in{all.leads() && form ? in_place : mine.data(), count, &byte_type()};
  if constexpr (std::is_same_v<Receive, Out>) {
    ISTHMUS_TRY(gather(in, Out{own, count, &byte_type()}, 0, local));
  } else {
    ISTHMUS_TRY(
        gatherv(in, OutV{packed, &layout.counts[first], &layout.begins[first], &byte_type()}, 0, local));
  }
  if (all.leads()) {
    const Question question{
        .collective = Collective::allgather, .ranks = domains.count(), .bytes = layout.largest};
    const OutV place{packed, layout.domain_counts.data(), layout.domain_begins.data(), &byte_type()};
    ISTHMUS_TRY(
        allgather_by(select(question), all.between(Tag::allgather, domains.leaders()), place).result());
  }
  ISTHMUS_TRY(bcast(packed, layout.total, byte_type(), 0, local));
  if (form) return {};
  for (int i = 0; i < all.comm.size(); ++i) {
    const int rank = domains.order()[static_cast<std::size_t>(i)];
    if (rank != all.comm.rank())
      unpack(packed + layout.begins[static_cast<std::size_t>(i)], block(receive, rank));
  }
  return {};
}

/// The part of a result that lies with the members of one domain.
class Row {
 public:
  Row(const Out& receive, std::span<const int> ranks) : buffer_(receive.buffer), type_(receive.type) {
    for (const int rank : ranks) {
      counts_.push_back(receive.count);
      begins_.push_back(rank * receive.count);
    }
  }
  Row(const OutV& receive, std::span<const int> ranks) : buffer_(receive.buffer), type_(receive.type) {
    for (const int rank : ranks) {
      counts_.push_back(receive.counts[rank]);
      begins_.push_back(receive.displacements[rank]);
    }
  }
  [[nodiscard]] OutV out() const { return {buffer_, counts_.data(), begins_.data(), type_}; }

 private:
  void* buffer_;
  const Datatype* type_;
  std::vector<std::int64_t> counts_, begins_;
};

template <class Receive>
Result<> allgather_over_slices(const Spread& all, const Receive& receive) {
  const Hierarchy& domains = all.domains;
  const std::span<const int> slice = domains.slice();
  const Ranks ranks = all.between(Tag::allgather, slice);
  const int n = ranks.size();
  Result<> result;
  for (int step = 0; step < n && result; ++step) {
    const int held = (ranks.rank() - step + n) % n;
    const int next = (held - 1 + n) % n;
    Batch moving(ranks);
    if (step + 1 < n) {
      moving.receive((ranks.rank() - 1 + n) % n, block(receive, slice[static_cast<std::size_t>(next)]));
      moving.send((ranks.rank() + 1) % n, block(receive, slice[static_cast<std::size_t>(held)]));
    }
    const Row row(receive, domains.ranks_of(held));
    result = allgatherv({in_place, 0, &byte_type()}, row.out(), domains.local());
    Result<> moved = moving.wait();
    if (result) result = std::move(moved);
  }
  return result;
}

template <class Receive>
Result<> allgather_in_ring(const Spread& all, const Receive& receive) {
  const std::span<const int> order = all.domains.order();
  const auto place = [&](int i) { return block(receive, order[static_cast<std::size_t>(i)]); };
  return ring(all.along(Tag::allgather), 0, place).result();
}

}  // namespace

Result<> allgather_along(const Spread& all, const Out& receive) {
  return allgather_in_ring(all, receive);
}
Result<> allgather_along(const Spread& all, const OutV& receive) {
  return allgather_in_ring(all, receive);
}
Result<> allgather_leaders(const Spread& all, const Out& receive) {
  return allgather_over_leaders(all, receive);
}
Result<> allgather_leaders(const Spread& all, const OutV& receive) {
  return allgather_over_leaders(all, receive);
}
Result<> allgather_slices(const Spread& all, const Out& receive) {
  return allgather_over_slices(all, receive);
}
Result<> allgather_slices(const Spread& all, const OutV& receive) {
  return allgather_over_slices(all, receive);
}

}  // namespace isthmus::coll
