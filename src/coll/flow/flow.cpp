#include "coll/flow/flow.hpp"

#include <new>

namespace isthmus::coll {

void Flow::promise_type::throw_no_memory() {
  throw std::bad_alloc();
}

void Flow::promise_type::unhandled_exception() noexcept {
  ended_early_ = true;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    keep(Result<>(std::unexpect, ErrorClass::no_mem));
  } catch (...) {
    keep(Result<>(std::unexpect, ErrorClass::intern));
  }
}

}  // namespace isthmus::coll
