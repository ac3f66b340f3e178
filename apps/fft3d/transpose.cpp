#include "transpose.hpp"

#include <algorithm>
#include <cstring>

namespace fft {
namespace {

// Blocks of 16 by 16 complex numbers: 4 KiB read and 4 KiB written.
constexpr int block = 16;

// Calls copy(i, j) for all i < rows and j < columns, block by block.
template <class Copy>
void in_blocks(int rows, int columns, Copy copy) {
  for (int i0 = 0; i0 < rows; i0 += block) {
    for (int j0 = 0; j0 < columns; j0 += block) {
      const int i1 = std::min(rows, i0 + block);
      const int j1 = std::min(columns, j0 + block);
      for (int j = j0; j < j1; ++j) {
        for (int i = i0; i < i1; ++i)
          copy(i, j);
      }
    }
  }
}

std::ptrdiff_t wide(int value) {
  return value;
}

}  // namespace

std::vector<Piece> pieces_of(const Planes& planes, int count) {
  const int pieces = std::max(1, std::min(count, planes.c));
  std::vector<Piece> all;
  for (int i = 0; i < pieces; ++i) {
    const Share c = apps::share_of(planes.c, pieces, i);
    Piece piece{.planes = planes,
                .begin_of_a = c.begin * planes.c_stride_of_a,
                .begin_of_b = c.begin * planes.c_stride_of_b};
    piece.planes.c = c.size;
    all.push_back(piece);
  }
  return all;
}

Transpose::Transpose(const Planes& planes, Exchange exchange, MPI_Comm comm)
    : planes_(planes),
      exchange_(exchange),
      member_(comm),
      a_parts_(parts_of(true)),
      b_parts_(parts_of(false)) {
  const auto here = [&](const Share& share, int whole) {
    return static_cast<std::size_t>(planes_.c) * static_cast<std::size_t>(share.size) *
           static_cast<std::size_t>(whole);
  };
  buffer_size_ = std::max(here(b_of(member_.rank), planes_.a), here(a_of(member_.rank), planes_.b));
  if (exchange_ == Exchange::alltoall)
    buffer_size_ = std::max(
        buffer_size_, static_cast<std::size_t>(a_parts_.counts[0]) * static_cast<std::size_t>(member_.size));
}

Transpose::Parts Transpose::parts_of(bool of_a) const {
  Parts parts;
  int offset = 0;
  for (int process = 0; process < member_.size; ++process) {
    // The first shares are the largest.
    const int from = exchange_ == Exchange::alltoall ? 0 : member_.rank;
    const int to = exchange_ == Exchange::alltoall ? 0 : process;
    const int count =
        of_a ? planes_.c * a_of(to).size * b_of(from).size : planes_.c * a_of(from).size * b_of(to).size;
    parts.counts.push_back(count);
    parts.offsets.push_back(offset);
    offset += count;
  }
  return parts;
}

void Transpose::exchange(Direction direction, const Complex* from, Complex* to) const {
  const Parts& out = sent(direction);
  const Parts& in = received(direction);
  if (exchange_ == Exchange::alltoall) {
    MPI_Alltoall(from, out.counts[0], MPI_C_DOUBLE_COMPLEX, to, in.counts[0], MPI_C_DOUBLE_COMPLEX,
                 member_.comm);
  } else {
    MPI_Alltoallv(from, out.counts.data(), out.offsets.data(), MPI_C_DOUBLE_COMPLEX, to, in.counts.data(),
                  in.offsets.data(), MPI_C_DOUBLE_COMPLEX, member_.comm);
  }
}

void Transpose::start_exchange(Direction direction, const Complex* from, Complex* to,
                               MPI_Request* request) const {
  const Parts& out = sent(direction);
  const Parts& in = received(direction);
  if (exchange_ == Exchange::alltoall) {
    MPI_Ialltoall(from, out.counts[0], MPI_C_DOUBLE_COMPLEX, to, in.counts[0], MPI_C_DOUBLE_COMPLEX,
                  member_.comm, request);
  } else {
    MPI_Ialltoallv(from, out.counts.data(), out.offsets.data(), MPI_C_DOUBLE_COMPLEX, to, in.counts.data(),
                   in.offsets.data(), MPI_C_DOUBLE_COMPLEX, member_.comm, request);
  }
}

// Calls copy(place in the pencils along a, place in the message) for all numbers of this process's pencils
// along a.
template <class Copy>
void Transpose::visit_a_parts(Copy copy) const {
  const int mine = b_of(member_.rank).size;
  for (int process = 0; process < member_.size; ++process) {
    const Share a = a_of(process);
    for (int c = 0; c < planes_.c; ++c) {
      const std::ptrdiff_t plane = c * planes_.c_stride_of_a + a.begin;
      const std::ptrdiff_t part =
          a_parts_.offsets[static_cast<std::size_t>(process)] + wide(c) * a.size * mine;
      in_blocks(mine, a.size,
                [&](int i, int j) { copy(plane + i * planes_.b_stride + j, part + wide(j) * mine + i); });
    }
  }
}

// Calls copy(place in the pencils along b, place in the message, how many) for all runs along b of this
// process's pencils along b.
template <class Copy>
void Transpose::visit_b_runs(Copy copy) const {
  const int mine = a_of(member_.rank).size;
  for (int process = 0; process < member_.size; ++process) {
    const Share b = b_of(process);
    std::ptrdiff_t part = b_parts_.offsets[static_cast<std::size_t>(process)];
    for (int c = 0; c < planes_.c; ++c) {
      for (int a = 0; a < mine; ++a, part += b.size)
        copy(c * planes_.c_stride_of_b + a * planes_.a_stride + b.begin, part,
             static_cast<std::size_t>(b.size));
    }
  }
}

void Transpose::pack(Direction direction, const Complex* pencils, Complex* message) const {
  if (direction == Direction::forward)
    visit_a_parts([&](std::ptrdiff_t pencil, std::ptrdiff_t place) { message[place] = pencils[pencil]; });
  else
    visit_b_runs([&](std::ptrdiff_t pencil, std::ptrdiff_t place, std::size_t count) {
      std::copy_n(pencils + pencil, count, message + place);
    });
}

void Transpose::unpack(Direction direction, const Complex* message, Complex* pencils) const {
  if (direction == Direction::forward)
    visit_b_runs([&](std::ptrdiff_t pencil, std::ptrdiff_t place, std::size_t count) {
      std::copy_n(message + place, count, pencils + pencil);
    });
  else
    visit_a_parts([&](std::ptrdiff_t pencil, std::ptrdiff_t place) { pencils[pencil] = message[place]; });
}

}  // namespace fft
