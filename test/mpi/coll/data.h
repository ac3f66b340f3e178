/* Data for the tests of collectives: what rank `from` sends to rank `to` is known at any place of any layout.
 */
#ifndef ISTHMUS_TEST_COLL_DATA_H
#define ISTHMUS_TEST_COLL_DATA_H

#include <vector>

#include "forms.h"

/* A datatype of some ints: where they are in an element, in packed order, and how many ints it extends over.
 */
class Shape {
 public:
  static Shape plain() { return Shape(MPI_INT, {0}, 1); }
  /* Two ints, in backward order and with a hole before each. */
  static Shape gapped() {
    const int lengths[] = {1, 1}, places[] = {3, 1};
    MPI_Datatype pair, resized;
    MPI_Type_indexed(2, lengths, places, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, 4 * sizeof(int), &resized);
    MPI_Type_commit(&resized);
    MPI_Type_free(&pair);
    return Shape(resized, {3, 1}, 4);
  }
  /* Two ints side by side: derived, but without holes. */
  static Shape dense() {
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    return Shape(pair, {0, 1}, 2);
  }
  Shape(const Shape&) = delete;
  ~Shape() {
    if (type != MPI_INT) MPI_Type_free(&type);
  }

  MPI_Datatype type;
  std::vector<int> places;
  int extent;
  int ints() const { return (int)places.size(); }

 private:
  Shape(MPI_Datatype datatype, std::vector<int> where, int extends)
      : type(datatype), places(std::move(where)), extent(extends) {}
};

constexpr int untouched = -123456789;

inline int value(int from, int to, int index) {
  return (int)((unsigned)from * 1000003U + (unsigned)to * 7919U + (unsigned)index);
}

/* Elements of a shape. Holes, and two elements behind the end, must keep their contents. */
class Buffer {
 public:
  Buffer(const Shape& shape, int elements)
      : shape_(shape), memory_((size_t)(elements + 2) * (size_t)shape.extent, untouched) {}

  void* data() { return memory_.data(); }
  void* at(int element) { return memory_.data() + (size_t)element * (size_t)shape_.extent; }

  /* Elements `first` to `first + count` become what `from` sends to `to`. */
  void fill(int first, int count, int from, int to) {
    for (int i = 0; i < count * shape_.ints(); ++i)
      place(first, i) = value(from, to, i);
  }
  /* They are that, and are forgotten. */
  void expect(int first, int count, int from, int to) {
    for (int i = 0; i < count * shape_.ints(); ++i) {
      CHECK_EQUAL(place(first, i), value(from, to, i));
      place(first, i) = untouched;
    }
  }
  /* Nothing else was written. */
  void expect_rest_untouched() const {
    for (const int i : memory_)
      CHECK_EQUAL(i, untouched);
  }

 private:
  int& place(int first, int i) {
    const int element = first + i / shape_.ints();
    return memory_[(size_t)element * (size_t)shape_.extent +
                   (size_t)shape_.places[(size_t)(i % shape_.ints())]];
  }

  const Shape& shape_;
  std::vector<int> memory_;
};

/* Counts of ints that lie around the sizes at which algorithms change; even, for shapes of two. */
inline std::vector<int> all_counts() {
  return {0, 2, 10, 12, 14, 64, 510, 514, 1022, 1026, 4098, 16386, 49150, 49154, 300002};
}
inline std::vector<int> block_counts() {
  return {0, 2, 12, 14, 126, 512, 514, 1024, 1026, 5000, 20002};
}

/* Runs `test(comm, rank, size)` on MPI_COMM_WORLD and on its ranks in another order. */
template <class Test>
void on_communicators(Test test) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test(MPI_COMM_WORLD, rank, size);
  MPI_Comm backward;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &backward);
  MPI_Comm_rank(backward, &rank);
  test(backward, rank, size);
  MPI_Comm_free(&backward);
}

/* `test(send, receive)` with every pair of shapes. */
template <class Test>
void with_shapes(Test test) {
  const Shape plain = Shape::plain(), gapped = Shape::gapped(), dense = Shape::dense();
  test(plain, plain);
  test(plain, gapped);
  test(gapped, plain);
  test(dense, gapped);
}

/* First, last and middle one. */
inline std::vector<int> roots(int size) {
  if (size == 1) return {0};
  if (size == 2) return {0, 1};
  return {0, size / 2, size - 1};
}

#endif
