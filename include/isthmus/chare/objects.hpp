#ifndef ISTHMUS_CHARE_OBJECTS_HPP
#define ISTHMUS_CHARE_OBJECTS_HPP

#include <isthmus/chare_runtime.h>
#include <isthmus/chare/archive.hpp>
#include <isthmus/chare/balance.hpp>
#include <isthmus/chare/callback.hpp>
#include <isthmus/chare/device_buffer.hpp>
#include <isthmus/chare/item.hpp>
#include <isthmus/chare/task.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// Chares and their collections, and how a program of chares begins: what <isthmus/chare.hpp> describes.
namespace isthmus::chare {

[[nodiscard]] inline std::uint32_t rank() {
  return isthmus_chare_rank(detail::runtime);
}
/// How many processes have chares: those of the lowest ranks.
[[nodiscard]] inline std::uint32_t size() {
  return isthmus_chare_size(detail::runtime);
}
/// How many have been started, and live.
[[nodiscard]] inline std::uint32_t processes() {
  return isthmus_chare_processes(detail::runtime);
}
/// How many nodes have chares: processes that share memory are of one.
[[nodiscard]] inline std::uint32_t nodes() {
  return isthmus_chare_nodes(detail::runtime);
}
/// The node of process `rank`, which has chares.
[[nodiscard]] inline std::uint32_t node_of(std::uint32_t rank) {
  return isthmus_chare_node_of(detail::runtime, rank);
}
/// Of this process.
[[nodiscard]] inline std::uint32_t node() {
  return node_of(rank());
}
/// All processes return from `run` with `code`. What is under way is dropped.
inline void exit(int code = 0) {
  isthmus_chare_exit(detail::runtime, code);
}
namespace detail {
inline void exit_well() {
  exit(0);
}
}  // namespace detail
[[nodiscard]] inline Callback<> exit_when_called() {
  return callback_function<&detail::exit_well>(0);
}
/// Sends what waits to be sent together with more: for an entry that goes on for long.
inline void flush() {
  isthmus_chare_flush(detail::runtime);
}
/// Calls `callback` once, when no invocation is under way or waits in any process.
inline void quiescence(const Callback<>& callback) {
  isthmus_chare_quiescence(detail::runtime, &callback.what);
}
/// Writes all chares to files at and beside `path`, which all processes see, when no invocation is under way
/// or waits anywhere. `written` gets an empty text, or why there is no checkpoint: then an older one at
/// `path` is as it was. Every class needs `serialize` and a constructor without arguments; no coroutine of a
/// chare may be suspended, and no reduction under way. `restarted` is called after a restart, and is no
/// future's.
inline void checkpoint(const std::string& path, const Callback<std::string>& written,
                       const Callback<>& restarted) {
  isthmus_chare_checkpoint(detail::runtime, path.c_str(), &written.what, &restarted.what);
}
/// The same in the memory of processes: each keeps its chares' state, and the copy of another's, on another
/// host where there are several. `written` gets an empty text when all copies are there, and from then on the
/// program goes on when a process dies (`mpiexec --on-failure continue`): those who live forget what has been
/// since, and all chares are made anew as they were, those of the dead on those who live. Then `restarted` is
/// called. `rank()` and `size()` are others then, coroutines are ended, and futures of before are no more.
/// Where both processes that kept a state have died, the job ends with a sentence that names them.
inline void checkpoint_in_memory(const Callback<std::string>& written, const Callback<>& restarted) {
  isthmus_chare_checkpoint_in_memory(detail::runtime, &written.what, &restarted.what);
}
/// Chares are in `processes` processes from now on, of those that there are: when no invocation is under way
/// or waits anywhere, those of processes that leave move to others, or some of all move to processes that
/// come, so that each has as many as the others. Of a group, a new process gets a copy of the chare of its
/// rank modulo the number of before; those of processes that leave end. `done` gets an empty text when all
/// are there, or why nothing has changed: for the reasons of a checkpoint.
inline void resize(std::uint32_t processes, const Callback<std::string>& done) {
  isthmus_chare_resize(detail::runtime, processes, &done.what);
}
/// How often this process has gone back to a checkpoint in memory.
[[nodiscard]] inline std::uint32_t rollbacks() {
  return isthmus_chare_rollbacks(detail::runtime);
}
/// Calls `function` in process `rank`.
template <auto function, class... A>
void call(std::uint32_t rank, A&&... arguments) {
  isthmus_chare_target target{};
  target.kind = ISTHMUS_CHARE_TO_FUNCTION;
  target.rank = rank;
  detail::invoke<detail::FunctionItem<function>>(target, 0, std::forward<A>(arguments)...);
}

/// Names one chare, wherever it is. Plain bytes: may be an argument.
template <class T>
class Proxy {
 public:
  Proxy() = default;
  Proxy(std::uint64_t collection, isthmus_chare_index index) {
    target_.collection = collection;
    target_.index = index;
    target_.kind = ISTHMUS_CHARE_TO_ELEMENT;
  }

  /// Invokes an entry: a member function, or an `Inbox`. Arguments are moved or copied, never packed, where
  /// the chare is in this process.
  template <auto entry, class... A>
  void invoke(A&&... arguments) const {
    detail::invoke<detail::EntryItem<T, entry>>(target_, priority_, std::forward<A>(arguments)...);
  }
  /// The same chare; what is invoked by this proxy goes before what waits with a larger number. 0: usual.
  [[nodiscard]] Proxy with_priority(int priority) const {
    Proxy other = *this;
    other.priority_ = priority;
    return other;
  }
  /// For reductions and answers: an entry with one argument, or none.
  template <auto entry>
  [[nodiscard]] auto callback() const {
    return detail::callback_to<detail::EntryItem<T, entry>>(target_);
  }
  /// The chare itself where it is in this process; else null. Owned by the library.
  [[nodiscard]] T* local() const {
    isthmus_chare_element* const found =
        isthmus_chare_find(detail::runtime, target_.collection, target_.index);
    return found ? static_cast<T*>(isthmus_chare_object_of(found)) : nullptr;
  }

 private:
  isthmus_chare_target target_{};
  int priority_ = 0;
};

namespace detail {

/// What arrays and groups have in common.
template <class T>
class Collective {
 public:
  /// Invokes an entry of all chares: each gets a copy. All broadcasts of a collection come in one order.
  template <auto entry, class... A>
  void broadcast(A&&... arguments) const {
    static_assert(buffers_in<typename EntryItem<T, entry>::Arguments> == 0,
                  "buffers are sent to one chare: invoke the entry of each");
    detail::invoke<EntryItem<T, entry>>(all(), 0, std::forward<A>(arguments)...);
  }
  template <auto entry>
  [[nodiscard]] auto broadcast_callback() const {
    return callback_to<EntryItem<T, entry>>(all());
  }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 protected:
  [[nodiscard]] Proxy<T> at(isthmus_chare_index index) const { return {id_, index}; }
  template <class... A>
  void create_as(const isthmus_chare_shape& shape, const A&... arguments) {
    const std::vector<unsigned char> bytes = pack<std::decay_t<A>...>(arguments...);
    id_ = isthmus_chare_create(runtime, &shape, TypeItem<T>::get(),
                               ConstructorItem<T, std::decay_t<A>...>::get(), bytes.data(), bytes.size());
  }
  template <class... A>
  static std::vector<unsigned char> pack(const A&... arguments) {
    Sizer sizer;
    sizer(arguments...);
    std::vector<unsigned char> bytes(sizer.size());
    Writer writer(bytes.data());
    writer(arguments...);
    return bytes;
  }

  std::uint64_t id_ = 0;

 private:
  [[nodiscard]] isthmus_chare_target all() const {
    isthmus_chare_target target{};
    target.collection = id_;
    target.kind = ISTHMUS_CHARE_TO_ALL;
    return target;
  }
};

/// Keys of up to 15 bytes are kept as they are, longer ones as a hash of 120 bits: two that are equal by
/// chance are less likely than a wrong bit of memory.
template <class Key>
isthmus_chare_index index_of_key(const Key& key) {
  Sizer sizer;
  sizer(key);
  std::vector<unsigned char> bytes(sizer.size() < 16 ? 16 : sizer.size());
  Writer writer(bytes.data());
  writer(key);
  isthmus_chare_index index{};
  if (sizer.size() < 16) {
    bytes[15] = static_cast<unsigned char>(sizer.size());
    std::memcpy(&index.low, bytes.data(), 8);
    std::memcpy(&index.high, bytes.data() + 8, 8);
    return index;
  }
  // Two walks of FNV-1a, with a mixing step of splitmix64 at the end, from different beginnings.
  std::uint64_t walks[2] = {0xcbf29ce484222325u, 0x9ae16a3b2f90404fu};
  for (std::uint64_t& walk : walks) {
    for (const unsigned char byte : bytes)
      walk = (walk ^ byte) * 0x100000001b3u;
    walk ^= walk >> 30;
    walk *= 0xbf58476d1ce4e5b9u;
    walk ^= walk >> 27;
    walk *= 0x94d049bb133111ebu;
    walk ^= walk >> 31;
  }
  index.low = walks[0];
  index.high = walks[1] | (std::uint64_t{0xff} << 56);
  return index;
}

}  // namespace detail

/// What arrays and maps have in common, whose chares move.
namespace detail {
template <class T>
class Moving : public Collective<T> {
 public:
  /// Moves chares now, as `balancer` says (`greedy`, `refine`, or a function like these), wherever they are
  /// at; those with a suspended coroutine and those that wait in `at_sync` stay. `done` is called when all
  /// that move have arrived. A load is the time in a chare's entries since the last balancing, and is
  /// measured only in programs that balance chares of this class.
  template <auto balancer>
  void balance(const Callback<>& done) const {
    static_assert(TypeItem<T>::can_move, "what moves needs `serialize` and a constructor without arguments");
    isthmus_chare_balance_now(runtime, this->id_, BalancerItem<T, balancer>::get(), &done.what);
  }
};
}  // namespace detail

/// One chare in each process, whose index is the rank.
template <class T>
class Group : public detail::Collective<T> {
 public:
  /// Each is made by `T(arguments...)`.
  template <class... A>
  [[nodiscard]] static Group create(const A&... arguments) {
    isthmus_chare_shape shape{};
    shape.kind = ISTHMUS_CHARE_GROUP;
    shape.count = size();
    shape.dimensions = 1;
    shape.extent[0] = shape.count;
    Group group;
    group.create_as(shape, arguments...);
    return group;
  }
  [[nodiscard]] Proxy<T> operator[](std::uint32_t rank) const { return this->at({rank, 0}); }
  /// That of this process; null where nothing is known of the group yet.
  [[nodiscard]] T* local() const { return (*this)[rank()].local(); }
};

/// One chare in each node, whose index is the node's number. The processes of a node share its memory: those
/// of a host, as a rule. The chare lives in the first of them, and is called there, one entry at a time.
template <class T>
class NodeGroup : public detail::Collective<T> {
 public:
  /// Each is made by `T(arguments...)`.
  template <class... A>
  [[nodiscard]] static NodeGroup create(const A&... arguments) {
    isthmus_chare_shape shape{};
    shape.kind = ISTHMUS_CHARE_NODE_GROUP;
    shape.count = nodes();
    shape.dimensions = 1;
    shape.extent[0] = shape.count;
    NodeGroup group;
    group.create_as(shape, arguments...);
    return group;
  }
  [[nodiscard]] Proxy<T> operator[](std::uint32_t node) const { return this->at({node, 0}); }
  /// That of this process's node.
  [[nodiscard]] Proxy<T> here() const { return (*this)[node()]; }
  /// The same, itself: null in all processes of the node but the first.
  [[nodiscard]] T* local() const { return here().local(); }
};

/// Chares in one to three dimensions, all of which are made at once, in blocks of consecutive ones.
template <class T, std::size_t dimensions = 1>
class Array : public detail::Moving<T> {
  static_assert(dimensions >= 1 && dimensions <= 3, "arrays have 1 to 3 dimensions");

 public:
  using Extents = std::array<std::uint64_t, dimensions>;

  template <class... A>
  [[nodiscard]] static Array create(const Extents& extents, const A&... arguments) {
    isthmus_chare_shape shape{};
    shape.kind = ISTHMUS_CHARE_DENSE;
    shape.count = 1;
    shape.dimensions = dimensions;
    for (std::size_t i = 0; i < dimensions; ++i) {
      shape.extent[i] = extents[i];
      shape.count *= extents[i];
    }
    Array array;
    array.extents_ = extents;
    array.create_as(shape, arguments...);
    return array;
  }
  [[nodiscard]] const Extents& extents() const noexcept { return extents_; }
  /// The coordinates must be below the extents.
  template <class... I>
  [[nodiscard]] Proxy<T> operator()(I... coordinates) const {
    static_assert(sizeof...(I) == dimensions, "one coordinate for each dimension");
    const Extents at{static_cast<std::uint64_t>(coordinates)...};
    std::uint64_t low = 0;
    for (std::size_t i = 0; i < dimensions; ++i) {
      if (at[i] >= extents_[i])
        detail::fail("coordinate " + std::to_string(at[i]) + " is beyond the array's extent " +
                     std::to_string(extents_[i]));
      low = low * extents_[i] + at[i];
    }
    return Collective::at({low, 0});
  }
  [[nodiscard]] Proxy<T> operator[](std::uint64_t i) const
    requires(dimensions == 1)
  {
    return (*this)(i);
  }

 private:
  using Collective = detail::Moving<T>;
  Extents extents_{};
};

/// Chares by keys of the program, made one by one. An invocation of one that is not there yet waits for it.
template <class T, class Key = std::uint64_t>
class Map : public detail::Moving<T> {
 public:
  [[nodiscard]] static Map create() {
    isthmus_chare_shape shape{};
    shape.kind = ISTHMUS_CHARE_SPARSE;
    Map map;
    map.id_ = isthmus_chare_create(detail::runtime, &shape, detail::TypeItem<T>::get(), nullptr, nullptr, 0);
    return map;
  }
  /// Makes `T(arguments...)`, in a process that follows from the key.
  template <class... A>
  void insert(const Key& key, const A&... arguments) const {
    insert_in(ISTHMUS_CHARE_HOME, key, arguments...);
  }
  template <class... A>
  void insert_in(std::uint32_t rank, const Key& key, const A&... arguments) const {
    const std::vector<unsigned char> bytes = this->pack(arguments...);
    isthmus_chare_insert(detail::runtime, this->id_, detail::index_of_key(key), rank,
                         detail::ConstructorItem<T, std::decay_t<A>...>::get(), bytes.data(), bytes.size());
  }
  /// Nobody inserts any more: reductions wait for this. Called once, when all calls of `insert` have been
  /// made, or are made by invocations that came before.
  void done_inserting() const { isthmus_chare_done_inserting(detail::runtime, this->id_); }
  [[nodiscard]] Proxy<T> operator[](const Key& key) const { return this->at(detail::index_of_key(key)); }
};

/// What all chares derive from.
class Chare {
 public:
  Chare(const Chare&) = delete;
  Chare& operator=(const Chare&) = delete;

  /// In a group the rank, in an array the place in row-major order.
  [[nodiscard]] std::uint64_t index() const { return isthmus_chare_index_of(element_).low; }
  template <std::size_t dimensions>
  [[nodiscard]] std::array<std::uint64_t, dimensions> coordinates() const {
    isthmus_chare_shape shape{};
    isthmus_chare_shape_of(element_, &shape);
    if (shape.dimensions != dimensions)
      detail::fail("a chare in " + std::to_string(shape.dimensions) + " dimensions is asked for " +
                   std::to_string(dimensions) + " coordinates");
    std::array<std::uint64_t, dimensions> found{};
    std::uint64_t rest = index();
    for (std::size_t i = dimensions; i-- > 0; rest /= shape.extent[i])
      found[i] = rest % shape.extent[i];
    return found;
  }
  /// `this_proxy<Cell>()`: of this chare, whose class that is.
  template <class T>
  [[nodiscard]] Proxy<T> this_proxy() const {
    return {isthmus_chare_collection_of(element_), isthmus_chare_index_of(element_)};
  }

 protected:
  /// Only the library makes chares (`create`, `insert`).
  Chare() : element_(isthmus_chare_self(detail::runtime)) {
    if (!element_) detail::fail("a chare is made by the program itself, and not by create or insert");
  }
  ~Chare() = default;

  /// This chare's part in the next reduction of its collection; `callback` gets the result when all have
  /// given theirs. All name the same `Combine` (`Sum`, `Min`, `Max`, `LogicalAnd`, `LogicalOr`, or a class
  /// like these), type and callback.
  template <class Combine, class T>
  void contribute(const T& value, const Callback<T>& callback) {
    isthmus_chare_contribute(detail::runtime, element_, detail::ReducerItem<Combine, T>::get(), &value,
                             &callback.what);
  }
  /// The same without a value: all have come here.
  void contribute(const Callback<>& callback) {
    const detail::Nothing nothing;
    isthmus_chare_contribute(detail::runtime, element_,
                             detail::ReducerItem<detail::CombineNothing, detail::Nothing>::get(), &nothing,
                             &callback.what);
  }
  /// Moves this chare to process `rank` after the entry that it is in: it is written by its `serialize`, and
  /// made there by its constructor without arguments and the same `serialize`. None of its coroutines may be
  /// suspended then. Invocations follow it; broadcasts and reductions count it once, wherever it is.
  void migrate(std::uint32_t rank) { isthmus_chare_migrate(detail::runtime, element_, rank); }
  /// This chare may be moved now. When all of its collection have said so, `balancer` places them, and
  /// `next`, an entry without arguments, is invoked on each where it is then. Until then it takes
  /// invocations, but neither moves by itself nor ends. Of a map only after `done_inserting`; not of a group.
  template <auto next, auto balancer = &refine, class T = typename detail::ClassOf<decltype(next)>::type>
  void at_sync() {
    static_assert(detail::TypeItem<T>::can_move,
                  "what moves needs `serialize` and a constructor without arguments");
    isthmus_chare_at_sync(detail::runtime, element_, detail::EntryItem<T, next>::get(),
                          detail::BalancerItem<T, balancer>::get());
  }
  /// This chare's load from now on, instead of what is measured: seconds, or any other unit that all use.
  void set_load(double load) { isthmus_chare_set_load(detail::runtime, element_, load); }
  /// Ends this chare after the entry that it is in. None of its coroutines may be suspended then.
  void destroy() { isthmus_chare_destroy(detail::runtime, element_); }

 private:
  friend class Task::promise_type;
  isthmus_chare_element* element_;
};

inline void Task::promise_type::hold(const Chare& self) {
  element_ = self.element_;
  isthmus_chare_hold(detail::runtime, element_, 1);
}

namespace detail {
inline void open(std::uint32_t processes) {
  runtime = isthmus_chare_open(items().data(), items().size());
  isthmus_chare_when_going_back(runtime, forget_waiting);
  if (processes != 0) isthmus_chare_begin_in(runtime, processes);
}
}  // namespace detail

/// Starts chares in all processes of the job, which all call this with the same program; starts MPI if nobody
/// has, and then ends it. `start()` is called in process 0 alone, and may be a coroutine. Returns in all
/// processes what `exit` was given. `processes`: chares begin in so many, and the others wait for `resize`,
/// or take the place of those that die; 0: in all.
template <class Start>
int run(Start start, std::uint32_t processes = 0) {
  detail::open(processes);
  const int code = isthmus_chare_run(
      detail::runtime, [](void* context) { detail::guarded([&] { (*static_cast<Start*>(context))(); }); },
      &start);
  isthmus_chare_close(std::exchange(detail::runtime, nullptr));
  return code;
}

/// The same from the checkpoint at `path`, with any number of processes. Chares are where they were if there
/// are as many as before; else they are in their homes. Of a group, a new process has a copy of the chare of
/// its rank modulo the number of processes before, and those of processes that are no more are dropped.
inline int restart(const std::string& path, std::uint32_t processes = 0) {
  detail::open(processes);
  const int code = isthmus_chare_restart(detail::runtime, path.c_str());
  isthmus_chare_close(std::exchange(detail::runtime, nullptr));
  return code;
}

}  // namespace isthmus::chare

#endif
