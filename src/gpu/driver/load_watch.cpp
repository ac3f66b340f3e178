#include "gpu/driver/load_watch.hpp"

#include <dlfcn.h>

namespace isthmus {
namespace {

unsigned long long loads_so_far() noexcept {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* result) {
        *static_cast<unsigned long long*>(result) = object->dlpi_adds;
        return 1;  // the first object knows it
      },
      &count);
  return count;
}

const link_map* last_object() noexcept {
  const link_map* object = _r_debug.r_map;
  while (object->l_next)
    object = object->l_next;
  return object;
}

}  // namespace

LoadWatch::LoadWatch() noexcept : last_(last_object()), count_(loads_so_far()) {
  // Held, so that it cannot be unloaded under our eyes: an extension of Python, say, that began to use MPI.
  if (last_->l_name && *last_->l_name != '\0') [[maybe_unused]]
    void* const held = ::dlopen(last_->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

bool LoadWatch::count_changed() noexcept {
  const unsigned long long now = loads_so_far();
  return count_.exchange(now, std::memory_order_relaxed) != now;
}

}  // namespace isthmus
