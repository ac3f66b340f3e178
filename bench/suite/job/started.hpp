#pragma once

namespace isthmus::bench {

// What MPI_Init_thread took in this process; main.cpp times it.
double seconds_in_init();

}  // namespace isthmus::bench
