#pragma once

#include <cstdint>

/// The C++ names of the compiler's types beyond the standard ones, where it has them.
namespace isthmus {

using Int128 = __int128;
using UInt128 = unsigned __int128;

#if defined(__FLT16_MANT_DIG__)
#define ISTHMUS_HAS_FLOAT16 1
using Float16 = _Float16;
#else
#define ISTHMUS_HAS_FLOAT16 0
#endif

// Where long double is already IEEE binary128 (aarch64) the two are one type.
#if __LDBL_MANT_DIG__ == 113
#define ISTHMUS_HAS_FLOAT128 1
using Float128 = long double;
#elif defined(__SIZEOF_FLOAT128__)
#define ISTHMUS_HAS_FLOAT128 1
using Float128 = __float128;
#else
#define ISTHMUS_HAS_FLOAT128 0
#endif

}  // namespace isthmus
