// What the kernels are told, and what each of their threads does: one source for the GPU and for the host's
// twins, by which the tests run without one.
#pragma once

#ifndef __CUDACC__
#include <bit>
#endif

#ifdef __CUDACC__
#define JACOBI_DEVICE __host__ __device__ __forceinline__
#else
#define JACOBI_DEVICE inline
#endif

namespace jacobi::gpu {

// A block and its layer around: points 1..size inside, x fastest.
struct Shape {
  int x, y, z;

  JACOBI_DEVICE long stride_y() const { return x + 2L; }
  JACOBI_DEVICE long stride_z() const { return stride_y() * (y + 2L); }
  JACOBI_DEVICE long index(int px, int py, int pz) const { return px + stride_y() * py + stride_z() * pz; }
};

struct SweepWork {
  Shape shape;
  const double* now;
  double* older;
  const double* source;
  double weight;
  // The largest change, as the bits of a double that is not negative: they are in the order of its values,
  // and those of a NaN above all. Null where nobody asks.
  unsigned long long* largest;
};

constexpr int face_count = 6;  // along x, y and z, the lower one first

struct FacesWork {
  Shape shape;
  double* field;
  double* buffers[face_count];  // null: there is no neighbour
};

// One point; returns its change.
JACOBI_DEVICE double sweep_point(const SweepWork& work, int x, int y, int z) {
  const long at = work.shape.index(x, y, z);
  const long dy = work.shape.stride_y();
  const long dz = work.shape.stride_z();
  const double* const in = work.now + at;
  const double around = in[-1] + in[1] + in[-dy] + in[dy] + in[-dz] + in[dz];
  const double step = (around + work.source[at]) * (1.0 / 6);
  double& out = work.older[at];
  out += work.weight * (step - out);
  const double change = step - in[0];
  return change < 0 ? -change : change;
}

// A change, so that as many bits are in the order of its absolute values.
JACOBI_DEVICE unsigned long long bits_of(double change) {
#ifdef __CUDA_ARCH__
  return __double_as_longlong(change) & 0x7fff'ffff'ffff'ffffULL;
#else
  return std::bit_cast<unsigned long long>(change) & 0x7fff'ffff'ffff'ffffULL;
#endif
}

JACOBI_DEVICE int points_of_face(const Shape& shape, int face) {
  return face < 2 ? shape.y * shape.z : face < 4 ? shape.x * shape.z : shape.x * shape.y;
}

// Where point `i` of a face is, in the outermost layer of the block or in the layer around it.
JACOBI_DEVICE long face_point(const Shape& shape, int face, int i, bool around) {
  const int inner = face < 2 ? shape.y : shape.x;
  const int first = 1 + i % inner;
  const int second = 1 + i / inner;
  const int length = face < 2 ? shape.x : face < 4 ? shape.y : shape.z;
  const int fixed = face % 2 == 0 ? (around ? 0 : 1) : length + (around ? 1 : 0);
  if (face < 2) return shape.index(fixed, first, second);
  if (face < 4) return shape.index(first, fixed, second);
  return shape.index(first, second, fixed);
}

JACOBI_DEVICE void pack_point(const FacesWork& work, int face, int i) {
  work.buffers[face][i] = work.field[face_point(work.shape, face, i, false)];
}
JACOBI_DEVICE void unpack_point(const FacesWork& work, int face, int i) {
  work.field[face_point(work.shape, face, i, true)] = work.buffers[face][i];
}

}  // namespace jacobi::gpu
