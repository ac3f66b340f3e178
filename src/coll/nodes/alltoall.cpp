#include <cstring>
#include <vector>

#include "coll/call/local.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/nodes/domain_major.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::coll {

namespace {

/// What a leader does in an alltoall: `from_members` holds, for each member of its domain, the blocks for all
/// ranks, domain by domain; `to_members` gets the blocks from all ranks in the same order.
Result<> swap_bundles(const Spread& all, std::uint64_t bytes, const std::byte* from_members,
                      std::byte* to_members) {
  const Hierarchy& domains = all.domains;
  const int n = all.comm.size();
  const int members = domains.local().size();
  const auto times = [bytes](int blocks) { return bytes * static_cast<std::uint64_t>(blocks); };
  std::vector<std::int64_t> counts, begins;
  for (int domain = 0; domain < domains.count(); ++domain) {
    begins.push_back(static_cast<std::int64_t>(times(members * domains.begin(domain))));
    counts.push_back(static_cast<std::int64_t>(times(members * domains.members(domain))));
  }
  Bytes leaving(times(members * n));
  Bytes arriving(times(members * n));
  // A bundle holds the blocks of each member of the domain it comes from, one member after the other.
  for (int domain = 0; domain < domains.count(); ++domain) {
    const std::uint64_t run = times(domains.members(domain));
    for (int i = 0; i < members && run != 0; ++i)
      std::memcpy(leaving.data() + times(members * domains.begin(domain)) + run * static_cast<unsigned>(i),
                  from_members + times(i * n + domains.begin(domain)), run);
  }
  ISTHMUS_TRY(alltoall_pairwise(all.between(Tag::alltoall, domains.leaders()),
                                InV{leaving.data(), counts.data(), begins.data(), &byte_type()},
                                OutV{arriving.data(), counts.data(), begins.data(), &byte_type()})
                  .result());
  for (int from = 0; from < n && bytes != 0; ++from)
    for (int i = 0; i < members; ++i)
      std::memcpy(to_members + times(i * n + from), arriving.data() + times(from * members + i), bytes);
  return {};
}

}  // namespace

Result<> alltoall_leaders(const Spread& all, const In& send, const Out& receive) {
  const Hierarchy& domains = all.domains;
  Communicator& local = domains.local();
  const std::uint64_t bytes = block(receive, 0).bytes;
  DomainMajor mine(domains, bytes);
  for (int i = 0; i < all.comm.size(); ++i)
    pack(block(send, domains.order()[static_cast<std::size_t>(i)]), mine.at(i));

  const auto row = bytes * static_cast<std::uint64_t>(all.comm.size());
  const auto count = static_cast<std::int64_t>(row);
  const std::uint64_t space = all.leads() ? row * static_cast<std::uint64_t>(local.size()) : 0;
  Bytes from_members(space);
  Bytes to_members(space);
  ISTHMUS_TRY(
      gather({mine.at(0), count, &byte_type()}, {from_members.data(), count, &byte_type()}, 0, local));
  if (all.leads()) ISTHMUS_TRY(swap_bundles(all, bytes, from_members.data(), to_members.data()));
  ISTHMUS_TRY(scatter({to_members.data(), count, &byte_type()}, {mine.at(0), count, &byte_type()}, 0, local));
  for (int i = 0; i < all.comm.size(); ++i)
    unpack(mine.at(i), block(receive, domains.order()[static_cast<std::size_t>(i)]));
  return {};
}

}  // namespace isthmus::coll
