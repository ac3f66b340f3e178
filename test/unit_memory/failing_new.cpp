#include "failing_new.hpp"

#include "../mpi/failing_new.h"

namespace isthmus::testing_memory {

Shortage::Shortage(long number) {
  has_failed = false;
  countdown = number;
}

Shortage::~Shortage() {
  countdown = 0;
}

bool Shortage::was_felt() const {
  return has_failed;
}

}  // namespace isthmus::testing_memory
