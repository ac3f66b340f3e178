#include <vector>

#include "coll/host_major.hpp"
#include "coll/hosts.hpp"
#include "coll/local.hpp"

namespace isthmus::coll {

Result<> gather_leaders(const Spread& all, const In& send, const Out& receive, int root) {
  const Hierarchy& hosts = all.hosts;
  const int own = hosts.own_host();
  const std::vector<int> speakers = hosts.speakers(root);
  const int speaker = speakers[static_cast<std::size_t>(own)];
  const bool at_root = all.comm.rank() == root;
  const bool here = at_root && send.buffer == in_place;
  const PackedIn mine(here ? block(receive, root) : whole(send));
  const std::uint64_t bytes = at_root ? block(receive, root).bytes : whole(send).bytes;
  const auto count = static_cast<std::int64_t>(bytes);

  HostMajor blocks(hosts, all.comm.rank() == speaker ? bytes : 0);
  ISTHMUS_TRY(gather({mine.data(), count, &byte_type()}, {blocks.of_host(own).data, count, &byte_type()},
                     hosts.index_of(speaker), hosts.local()));
  if (all.comm.rank() != speaker) return {};
  const Ranks ranks = all.between(Tag::gather, speakers);
  if (!at_root) return ranks.send(hosts.host_of(root), blocks.of_host(own));
  Batch arriving(ranks);
  for (int host = 0; host < hosts.hosts(); ++host)
    if (host != own) arriving.receive(host, blocks.of_host(host));
  ISTHMUS_TRY(arriving.wait());
  for (int i = 0; i < all.comm.size(); ++i) {
    const int rank = hosts.order()[static_cast<std::size_t>(i)];
    if (rank != root || !here) unpack(blocks.at(i), block(receive, rank));
  }
  return {};
}

Result<> scatter_leaders(const Spread& all, const In& send, const Out& receive, int root) {
  const Hierarchy& hosts = all.hosts;
  const int own = hosts.own_host();
  const std::vector<int> speakers = hosts.speakers(root);
  const int speaker = speakers[static_cast<std::size_t>(own)];
  const bool at_root = all.comm.rank() == root;
  const bool here = at_root && receive.buffer == in_place;
  const std::uint64_t bytes = at_root ? block(send, root).bytes : whole(receive).bytes;
  const auto count = static_cast<std::int64_t>(bytes);

  HostMajor blocks(hosts, all.comm.rank() == speaker ? bytes : 0);
  if (all.comm.rank() == speaker) {
    const Ranks ranks = all.between(Tag::scatter, speakers);
    if (at_root) {
      for (int i = 0; i < all.comm.size(); ++i)
        pack(block(send, hosts.order()[static_cast<std::size_t>(i)]), blocks.at(i));
      Batch leaving(ranks);
      for (int host = 0; host < hosts.hosts(); ++host)
        if (host != own) leaving.send(host, blocks.of_host(host));
      ISTHMUS_TRY(leaving.wait());
    } else {
      ISTHMUS_TRY(ranks.receive(hosts.host_of(root), blocks.of_host(own)));
    }
  }
  const PackedOut mine(here ? Payload{} : whole(receive));
  void* place = here ? in_place : mine.data();
  ISTHMUS_TRY(scatter({blocks.of_host(own).data, count, &byte_type()}, {place, count, &byte_type()},
                      hosts.index_of(speaker), hosts.local()));
  mine.finish();
  return {};
}

}  // namespace isthmus::coll
