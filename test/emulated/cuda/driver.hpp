#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "entry.hpp"
#include "ledger.hpp"
#include "machine.hpp"
#include "memory/addresses.hpp"
#include "settings.hpp"

namespace isthmus::emulated {

/// Objects behind handles: a handle is valid while the object is in here.
template <class Object>
class Registry {
 public:
  Object* add(std::shared_ptr<Object> object) {
    Object* handle = object.get();
    ended_.erase(handle);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  [[nodiscard]] std::shared_ptr<Object> find(Object* handle) const {
    fault_if_ended(handle);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> remove(Object* handle) {
    fault_if_ended(handle);
    auto node = objects_.extract(handle);
    return node ? std::move(node.mapped()) : nullptr;
  }
  /// The same, for a reset: whoever names it from now on has a fault, as with a real driver.
  std::shared_ptr<Object> end(Object* handle) {
    auto object = remove(handle);
    ended_.insert(handle);
    return object;
  }
  [[nodiscard]] const auto& all() const noexcept { return objects_; }

 private:
  void fault_if_ended(Object* handle) const {
    if (!ended_.contains(handle)) return;
    std::fputs("emulated cuda: a handle of a context that was reset\n", stderr);
    std::abort();
  }

  std::unordered_map<Object*, std::shared_ptr<Object>> objects_;
  std::unordered_set<Object*> ended_;
};

struct PhysicalMemory;
/// Addresses for mappings, with as many in the copy engine's view, so that what lies side by side does so
/// there too.
struct Reservation {
  std::size_t bytes = 0;
  std::byte* view = nullptr;
};

/// Everything that the emulated driver holds for this process. Lives forever.
struct Driver {
  explicit Driver(Machine the_machine);

  const Machine machine;

  /// Held while any of the following is looked at; never while waiting for a stream.
  std::mutex mutex;
  std::vector<std::shared_ptr<ContextObject>> primary;  ///< by ordinal
  Registry<ContextObject> contexts;
  Registry<StreamObject> streams;
  Registry<EventObject> events;
  Registry<PoolObject> pools;
  Registry<ModuleObject> modules;
  Registry<LibraryObject> libraries;
  Registry<FunctionObject> functions;
  Registry<GraphObject> graphs;
  Registry<GraphExecObject> executables;
  AddressSpace addresses;
  std::vector<std::uint64_t> used;  ///< bytes, by ordinal
  std::uint64_t pinned = 0;         ///< bytes
  std::uint64_t last_id = 0;        ///< of buffers; never used again
  unsigned long long last_context = 0;
  std::map<Physical, std::shared_ptr<PhysicalMemory>> physical;
  std::map<Address, Reservation> reservations;
  std::vector<Pool> default_pools, current_pools;  ///< by ordinal
};

/// Null before cuInit, and in a child of fork().
Driver* driver();

}  // namespace isthmus::emulated
