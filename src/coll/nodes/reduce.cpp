#include <vector>

#include "coll/call/operands.hpp"
#include "coll/messages/algorithms.hpp"
#include "coll/messages/messages.hpp"
#include "coll/nodes/domains.hpp"

namespace isthmus::coll {

namespace {

Question between(const Hierarchy& domains, Collective collective, const Reduction& what) {
  return {.collective = collective,
          .ranks = domains.count(),
          .bytes = static_cast<std::uint64_t>(what.count * what.type->size()),
          .commutative = what.op->commutative()};
}

}  // namespace

Result<> reduce_leaders(const Spread& all, const void* send, void* receive, const Reduction& what, int root) {
  const Hierarchy& domains = all.domains;
  Communicator& local = domains.local();
  const std::vector<int> speakers = domains.speakers(root);
  const int speaker = speakers[static_cast<std::size_t>(domains.own_domain())];
  const bool speaks = all.comm.rank() == speaker;
  Elements space(speaks && speaker != root && local.size() > 1 ? what.count : 0, *what.type);
  void* sum = speaker == root ? receive : space.buffer();
  const void* operand = send;
  if (local.size() > 1) {
    ISTHMUS_TRY(reduce(send, sum, what, domains.index_of(speaker), local));
    operand = sum;
  }
  if (!speaks) return {};
  return reduce_by(select(between(domains, Collective::reduce, what)), all.between(Tag::reduce, speakers),
                   operand, receive, what, domains.domain_of(root))
      .result();
}

Result<> reduce_along(const Spread& all, const void* send, void* receive, const Reduction& what, int root) {
  const int place = all.domains.begin(all.domains.domain_of(root)) + all.domains.index_of(root);
  return reduce_ring(all.along(Tag::reduce), send, receive, what, place).result();
}

Result<> allreduce_leaders(const Spread& all, const void* send, void* receive, const Reduction& what) {
  const Hierarchy& domains = all.domains;
  Communicator& local = domains.local();
  const void* operand = send;
  if (local.size() > 1) {
    ISTHMUS_TRY(reduce(send, receive, what, 0, local));
    operand = receive;
  }
  if (all.leads())
    ISTHMUS_TRY(allreduce_by(select(between(domains, Collective::allreduce, what)),
                             all.between(Tag::allreduce, domains.leaders()), operand, receive, what)
                    .result());
  return bcast(receive, what.count, *what.type, 0, local);
}

Result<> allreduce_slices(const Spread& all, const void* send, void* receive, const Reduction& what) {
  const Hierarchy& domains = all.domains;
  Communicator& local = domains.local();
  const Shares shares(what.count, local.size());
  std::vector<std::int64_t> counts, begins;
  for (int i = 0; i < local.size(); ++i) {
    counts.push_back(shares.size(i));
    begins.push_back(shares.begin(i));
  }
  const Reduction share{shares.size(local.rank()), what.type, what.op};
  void* place = element(receive, shares.begin(local.rank()), *what.type);
  // In the place where it belongs, the share may overwrite the own operand: nobody else wants that part of
  // it.
  ISTHMUS_TRY(reduce_scatter(send, place, counts.data(), what, local));
  ISTHMUS_TRY(allreduce_by(select(between(domains, Collective::allreduce, share)),
                           all.between(Tag::allreduce, domains.slice()), place, place, share)
                  .result());
  return allgatherv({in_place, 0, what.type}, {receive, counts.data(), begins.data(), what.type}, local);
}

}  // namespace isthmus::coll
