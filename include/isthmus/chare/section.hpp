#ifndef ISTHMUS_CHARE_SECTION_HPP
#define ISTHMUS_CHARE_SECTION_HPP

#include <isthmus/chare/objects.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// Some chares of a collection, as one: broadcasts to them, and reductions over them.
namespace isthmus::chare {

namespace detail {

/// What a process does for a section: it invokes its share of the members, and combines what those that live
/// here contribute. All parts know all members, so that a restart with another number of processes finds
/// them.
template <class T>
class SectionPart : public Chare {
 public:
  SectionPart() = default;
  SectionPart(std::uint64_t collection, std::uint64_t extent, std::uint32_t root,
              const std::vector<isthmus_chare_index>& members)
      : collection_(collection), extent_(extent), root_(root), members_(members) {}
  ~SectionPart() {
    for (auto* all : {&partials_, &totals_})
      for (auto& [round, each] : *all)
        each.reducer->destroy(each.value);
  }

  template <class Archive>
  void serialize(Archive& archive) {
    if (!partials_.empty() || !totals_.empty())
      throw std::runtime_error("a reduction over a section is under way");
    archive(collection_, extent_, root_, members_);
  }

  template <auto entry>
  void deliver(const typename EntryItem<T, entry>::Arguments& arguments) {
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (owner(i) == rank())
        std::apply(
            [&](const auto&... each) { Proxy<T>(collection_, members_[i]).template invoke<entry>(each...); },
            arguments);
  }

  /// Of a member in this process.
  void add(std::uint32_t round, const isthmus_chare_item* reducer, const void* value,
           const isthmus_chare_callback& callback) {
    merge(partials_, round, reducer, reducer->copy(value), 1, callback);
    // When there is nothing else to do: then those of this process have given theirs, mostly.
    if (!std::exchange(is_listed_, true))
      this_proxy<SectionPart>().with_priority(1 << 20).template invoke<&SectionPart::send_up>();
  }
  void send_up() {
    is_listed_ = false;
    for (auto& [round, each] : std::exchange(partials_, {})) {
      std::vector<unsigned char> bytes(each.reducer->measure(each.value));
      each.reducer->write(each.value, bytes.data());
      each.reducer->destroy(each.value);
      Proxy<SectionPart>(isthmus_chare_collection_of(isthmus_chare_self(runtime)), {root_ % size(), 0})
          .template invoke<&SectionPart::collect>(round, each.reducer->number, each.count, each.callback,
                                                  bytes);
    }
  }
  void collect(std::uint32_t round, std::uint32_t reducer, std::uint64_t count,
               const isthmus_chare_callback& callback, const std::vector<unsigned char>& bytes) {
    const isthmus_chare_item* found = nullptr;
    for (const isthmus_chare_item* each : items())
      if (each->number == reducer && each->kind == ISTHMUS_CHARE_REDUCER) found = each;
    if (!found)
      fail("a reduction over a section names item " + std::to_string(reducer) + ", which is no reducer");
    Partial& total = merge(totals_, round, found, found->make(bytes.data(), bytes.size()), count, callback);
    if (total.count < members_.size()) return;
    if (total.count > members_.size())
      fail("a reduction over a section of " + std::to_string(members_.size()) + " is given " +
           std::to_string(total.count) + " parts");
    std::vector<unsigned char> result(found->measure(total.value));
    found->write(total.value, result.data());
    found->destroy(total.value);
    totals_.erase(round);
    isthmus_chare_call(runtime, &callback, result.data(), result.size());
  }
  void end() { destroy(); }

 private:
  struct Partial {
    const isthmus_chare_item* reducer = nullptr;
    void* value = nullptr;
    std::uint64_t count = 0;
    isthmus_chare_callback callback{};
  };
  using Partials = std::map<std::uint32_t, Partial>;

  /// Takes `value`.
  static Partial& merge(Partials& into, std::uint32_t round, const isthmus_chare_item* reducer, void* value,
                        std::uint64_t count, const isthmus_chare_callback& callback) {
    Partial& partial = into[round];
    if (!partial.reducer) {
      partial = {reducer, value, count, callback};
      return partial;
    }
    if (partial.reducer != reducer) fail("a reduction over a section is given parts of two kinds");
    reducer->combine(partial.value, value);
    reducer->destroy(value);
    partial.count += count;
    return partial;
  }
  /// Who invokes it: where it lives, if it has not moved.
  [[nodiscard]] std::uint32_t owner(std::size_t i) const {
    const double place = extent_ != 0 ? static_cast<double>(members_[i].low) / static_cast<double>(extent_)
                                      : static_cast<double>(i) / static_cast<double>(members_.size());
    const auto rank = static_cast<std::uint32_t>(place * size());
    return rank < size() ? rank : size() - 1;
  }

  std::uint64_t collection_ = 0;
  std::uint64_t extent_ = 0;  ///< of an array, a group or a node group; 0: a map's
  std::uint32_t root_ = 0;
  std::vector<isthmus_chare_index> members_;
  Partials partials_;
  Partials totals_;  ///< root
  bool is_listed_ = false;
};

}  // namespace detail

/// Some chares of an array, a map, a group or a node group. A value that may be an argument, and part of a
/// chare's state: each member that contributes keeps its own.
template <class T>
class Section {
 public:
  Section() = default;
  template <std::size_t dimensions>
  [[nodiscard]] static Section of(const Array<T, dimensions>& array,
                                  const std::vector<std::array<std::uint64_t, dimensions>>& members) {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : array.extents())
      count *= extent;
    std::vector<isthmus_chare_index> indices;
    for (const auto& member : members) {
      std::uint64_t low = 0;
      for (std::size_t i = 0; i < dimensions; ++i) {
        if (member[i] >= array.extents()[i])
          detail::fail("coordinate " + std::to_string(member[i]) +
                       " of a section is beyond the array's extent " + std::to_string(array.extents()[i]));
        low = low * array.extents()[i] + member[i];
      }
      indices.push_back({low, 0});
    }
    return make(array.id(), count, indices);
  }
  template <class Key>
  [[nodiscard]] static Section of(const Map<T, Key>& map, const std::vector<Key>& members) {
    std::vector<isthmus_chare_index> indices;
    for (const Key& key : members)
      indices.push_back(detail::index_of_key(key));
    return make(map.id(), 0, indices);
  }
  [[nodiscard]] static Section of(const Group<T>& group, const std::vector<std::uint32_t>& ranks) {
    std::vector<isthmus_chare_index> indices;
    for (const std::uint32_t rank : ranks) {
      if (rank >= isthmus::chare::size()) detail::fail("a section names rank " + std::to_string(rank));
      indices.push_back({rank, 0});
    }
    return make(group.id(), isthmus::chare::size(), indices);
  }
  [[nodiscard]] static Section of(const NodeGroup<T>& group, const std::vector<std::uint32_t>& members) {
    std::vector<isthmus_chare_index> indices;
    for (const std::uint32_t node : members) {
      if (node >= nodes()) detail::fail("a section names node " + std::to_string(node));
      indices.push_back({node, 0});
    }
    return make(group.id(), nodes(), indices);
  }

  /// Invokes an entry of all members: each gets a copy. To those that have not moved, in the order in which
  /// one process broadcasts.
  template <auto entry, class... A>
  void broadcast(A&&... arguments) const {
    using Arguments = typename detail::EntryItem<T, entry>::Arguments;
    static_assert(detail::buffers_in<Arguments> == 0,
                  "buffers are sent to one chare: invoke the entry of each");
    parts_.template broadcast<&detail::SectionPart<T>::template deliver<entry>>(
        Arguments(std::forward<A>(arguments)...));
  }
  /// This chare's part in the next reduction over the section, of which it is a member; `callback` gets the
  /// result when all members have given theirs. All name the same `Combine`, type and callback.
  template <class Combine, class V>
  void contribute(const V& value, const Callback<V>& callback) {
    detail::SectionPart<T>* const part = parts_.local();
    if (!part) detail::fail("a chare contributes to a section that this process does not know yet");
    part->add(round_++, detail::ReducerItem<Combine, V>::get(), &value, callback.what);
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Nothing is broadcast to it and reduced over it any more.
  void destroy() const { parts_.template broadcast<&detail::SectionPart<T>::end>(); }

 private:
  static Section make(std::uint64_t collection, std::uint64_t extent,
                      const std::vector<isthmus_chare_index>& members) {
    if (members.empty()) detail::fail("a section has no members");
    std::set<std::pair<std::uint64_t, std::uint64_t>> all;
    for (const isthmus_chare_index& each : members)
      if (!all.emplace(each.low, each.high).second) detail::fail("a section has a member twice");
    Section made;
    made.parts_ = Group<detail::SectionPart<T>>::create(collection, extent, rank(), members);
    made.size_ = members.size();
    return made;
  }

  Group<detail::SectionPart<T>> parts_;
  std::uint64_t size_ = 0;
  std::uint32_t round_ = 0;  ///< of reductions that this copy's owner has contributed to
};

}  // namespace isthmus::chare

#endif
