#include <algorithm>
#include <bit>
#include <vector>

#include "coll/hosts.hpp"
#include "coll/local.hpp"
#include "coll/messages.hpp"

namespace isthmus::coll {

Result<> bcast_leaders(const Spread& all, const Out& data, int root) {
  const Hierarchy& hosts = all.hosts;
  const std::vector<int> speakers = hosts.speakers(root);
  const int speaker = speakers[static_cast<std::size_t>(hosts.own_host())];
  if (all.comm.rank() == speaker) {
    const Payload payload = whole(data);
    const Question question{.collective = Collective::bcast, .ranks = hosts.hosts(), .bytes = payload.bytes};
    ISTHMUS_TRY(bcast_by(select(question), all.between(Tag::bcast, speakers), payload, hosts.host_of(root)));
  }
  return bcast(data.buffer, data.count, *data.type, hosts.index_of(speaker), hosts.local());
}

namespace {

/// The way of segments from host to host. A chain sends each of them once from each host, but the last host
/// waits for one segment's time for each host before it; a binomial tree has short ways, and its root sends
/// everything several times.
class Way {
 public:
  Way(int hosts, int own, int top, int segments)
      : hosts_(hosts),
        top_(top),
        position_((own - top + hosts) % hosts),
        chain_(segments + hosts - 2 <=
               segments * static_cast<int>(std::bit_width(static_cast<unsigned>(hosts - 1)))) {}

  [[nodiscard]] bool at_top() const { return position_ == 0; }
  [[nodiscard]] int parent() const { return host(chain_ ? position_ - 1 : position_ & (position_ - 1)); }
  template <class Visit>
  void for_children(Visit visit) const {
    if (chain_) {
      if (position_ + 1 < hosts_) visit(host(position_ + 1));
      return;
    }
    const int reach =
        at_top() ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(hosts_))) : position_ & -position_;
    for (int distance = reach / 2; distance > 0; distance /= 2)
      if (position_ + distance < hosts_) visit(host(position_ + distance));
  }

 private:
  [[nodiscard]] int host(int position) const { return (position + top_) % hosts_; }

  int hosts_, top_, position_;
  bool chain_;
};

}  // namespace

Result<> bcast_segments(const Spread& all, const Out& data, int root) {
  const Hierarchy& hosts = all.hosts;
  const std::vector<int> speakers = hosts.speakers(root);
  const int speaker = speakers[static_cast<std::size_t>(hosts.own_host())];
  const Payload payload = whole(data);
  const PackedOut packed(payload, all.comm.rank() == root);
  const auto segments = static_cast<int>((payload.bytes + bcast_segment - 1) / bcast_segment);
  const auto segment = [&](int i) {
    const std::uint64_t begin = static_cast<std::uint64_t>(i) * bcast_segment;
    return Payload::of(packed.data() + begin, std::min(bcast_segment, payload.bytes - begin));
  };

  const Way way(hosts.hosts(), hosts.own_host(), hosts.host_of(root), segments);
  const bool speaks = all.comm.rank() == speaker;
  const bool hears = speaks && !way.at_top();
  const Ranks ranks = all.between(Tag::bcast, speakers);
  Batch arriving(ranks);
  Batch leaving(ranks);
  Result<> result;
  if (hears && segments > 0) arriving.receive(way.parent(), segment(0));
  for (int i = 0; i < segments && result; ++i) {
    if (hears) result = arriving.wait();
    if (!result) break;
    if (hears && i + 1 < segments) arriving.receive(way.parent(), segment(i + 1));
    if (speaks) way.for_children([&](int host) { leaving.send(host, segment(i)); });
    result = bcast(segment(i).data, static_cast<std::int64_t>(segment(i).bytes), byte_type(),
                   hosts.index_of(speaker), hosts.local());
  }
  Result<> arrived = arriving.wait();
  Result<> left = leaving.wait();
  if (all.comm.rank() != root) packed.finish();
  if (!result) return result;
  if (!arrived) return arrived;
  return left;
}

}  // namespace isthmus::coll
