// test/mpi/check.h for programs of chares, where rank 0 may be the only one that checks.
#pragma once

#include "../mpi/check.h"
