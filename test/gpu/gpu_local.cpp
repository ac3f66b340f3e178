// Calls that send nothing, with their buffers in every kind of memory: MPI_Pack, MPI_Unpack, their external32
// forms and MPI_Reduce_local give what they give in host memory. Prints nothing when all is right. At 1 rank.
#include <numeric>

#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;
using Bytes = std::vector<unsigned char>;

namespace {

constexpr int canary = 0xAB;

/// 150 pairs of integers with a gap behind each, then a byte: 1201 packed bytes.
class Columns {
 public:
  Columns() {
    MPI_Datatype pairs;
    MPI_Type_vector(150, 2, 5, MPI_INT, &pairs);
    const int lengths[] = {1, 1};
    const MPI_Aint places[] = {0, 150L * 5 * 4};
    const MPI_Datatype types[] = {pairs, MPI_SIGNED_CHAR};
    MPI_Type_create_struct(2, lengths, places, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&pairs);
  }
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;
  ~Columns() { MPI_Type_free(&type_); }
  [[nodiscard]] MPI_Datatype type() const { return type_; }
  static constexpr std::size_t extent = 150UL * 5 * 4 + 4;
  static constexpr int packed = 150 * 8 + 1;

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

Bytes pattern(std::size_t bytes) {
  Bytes values(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<unsigned char>(i * 37 + i / 253);
  return values;
}

void check_pack(const Gpu& gpu, MemoryKind from, MemoryKind to) {
  const Columns columns;
  const Bytes data = pattern(2 * Columns::extent);
  Memory message(gpu, from, data.size());
  constexpr int room = 5000;
  Memory packed(gpu, to, room);
  message.write(data);
  packed.write(Bytes(room, canary));
  Bytes expected(room, canary);
  int position = 3;
  MPI_Pack(data.data(), 2, columns.type(), expected.data(), room, &position, MPI_COMM_SELF);
  MPI_Pack(data.data() + 7, 5, MPI_BYTE, expected.data(), room, &position, MPI_COMM_SELF);
  const int end = position;
  position = 3;
  MPI_Pack(message.data(), 2, columns.type(), packed.data(), room, &position, MPI_COMM_SELF);
  MPI_Pack(static_cast<char*>(message.data()) + 7, 5, MPI_BYTE, packed.data(), room, &position,
           MPI_COMM_SELF);
  CHECK_EQUAL(position, end);
  CHECK(packed.read<unsigned char>(room) == expected);

  Bytes back(data.size(), canary);
  message.write(back);
  position = 3;
  MPI_Unpack(expected.data(), room, &position, back.data(), 2, columns.type(), MPI_COMM_SELF);
  position = 3;
  MPI_Unpack(packed.data(), room, &position, message.data(), 2, columns.type(), MPI_COMM_SELF);
  CHECK_EQUAL(position, 3 + 2 * Columns::packed);
  CHECK(message.read<unsigned char>(data.size()) == back);
}

void check_external(const Gpu& gpu, MemoryKind from, MemoryKind to) {
  const Columns columns;
  const Bytes data = pattern(Columns::extent);
  Memory message(gpu, from, data.size());
  constexpr int room = 2000;
  Memory packed(gpu, to, room);
  message.write(data);
  packed.write(Bytes(room, canary));
  Bytes expected(room, canary);
  MPI_Aint position = 5;
  MPI_Pack_external("external32", data.data(), 1, columns.type(), expected.data(), room, &position);
  const MPI_Aint end = position;
  position = 5;
  MPI_Pack_external("external32", message.data(), 1, columns.type(), packed.data(), room, &position);
  CHECK_EQUAL(position, end);
  // What is behind the message in the pack buffer is not the call's.
  const Bytes got = packed.read<unsigned char>(room);
  CHECK(std::equal(got.begin(), got.begin() + end, expected.begin()));

  Bytes back(data.size(), canary);
  message.write(back);
  position = 5;
  MPI_Unpack_external("external32", expected.data(), room, &position, back.data(), 1, columns.type());
  position = 5;
  MPI_Unpack_external("external32", packed.data(), room, &position, message.data(), 1, columns.type());
  CHECK_EQUAL(position, end);
  CHECK(message.read<unsigned char>(data.size()) == back);
}

void subtract(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i)
    static_cast<double*>(inout)[i] = static_cast<double*>(in)[i] - static_cast<double*>(inout)[i];
}

template <class T>
void check_reduce(const Gpu& gpu, MemoryKind from, MemoryKind to, MPI_Op op, MPI_Datatype type) {
  constexpr int count = 1003;
  std::vector<T> left(count);
  std::vector<T> right(count);
  for (int i = 0; i < count; ++i) {
    left[static_cast<std::size_t>(i)] = static_cast<T>(i % 11 - 4);
    right[static_cast<std::size_t>(i)] = static_cast<T>(3 - i % 7);
  }
  Memory in(gpu, from, count * sizeof(T));
  Memory inout(gpu, to, count * sizeof(T));
  in.write(left);
  inout.write(right);
  MPI_Reduce_local(left.data(), right.data(), count, type, op);
  MPI_Reduce_local(in.data(), inout.data(), count, type, op);
  CHECK(inout.read<T>(count) == right);
  CHECK(in.read<T>(count) == left);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const Gpu gpu(0);
    MPI_Op difference;
    MPI_Op_create(subtract, 0, &difference);
    for (const MemoryKind from : every_kind)
      for (const MemoryKind to : every_kind) {
        check_pack(gpu, from, to);
        check_external(gpu, from, to);
        check_reduce<double>(gpu, from, to, MPI_SUM, MPI_DOUBLE);
        check_reduce<double>(gpu, from, to, difference, MPI_DOUBLE);
        check_reduce<short>(gpu, from, to, MPI_MAX, MPI_SHORT);
        check_reduce<unsigned char>(gpu, from, to, MPI_BXOR, MPI_UNSIGNED_CHAR);
        check_reduce<long double>(gpu, from, to, MPI_PROD, MPI_LONG_DOUBLE);
        check_reduce<int>(gpu, from, to, MPI_REPLACE, MPI_INT);
      }
    MPI_Op_free(&difference);
    MPI_Finalize();
  }
  return 0;
}
