// Derived datatypes from and to every place: gaps at both sides, or at one of them; packed and unpacked.
#include <algorithm>
#include <array>
#include <utility>

#include "places.hpp"

namespace isthmus::gpu_check {
namespace {

/// A datatype, and where its bytes are in a buffer, in the order of the message.
struct Layout {
  std::string name;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int count = 1;
  std::size_t bytes = 0;                                      ///< of the message
  std::size_t extent = 0;                                     ///< up to the last byte, in the buffer
  std::vector<std::pair<std::size_t, std::size_t>> blocks{};  ///< offset and length

  [[nodiscard]] bool is_short() const { return extent < (std::size_t{1} << 20U); }
};

using Blocks = std::vector<std::pair<std::size_t, std::size_t>>;

Blocks strided(std::size_t count, std::size_t length, std::size_t stride) {
  Blocks blocks;
  for (std::size_t i = 0; i < count; ++i)
    blocks.emplace_back(i * stride, length);
  return blocks;
}

class Layouts {
 public:
  Layouts() {
    vectors();
    subarrays();
    irregular();
    nested();
  }
  Layouts(const Layouts&) = delete;
  Layouts& operator=(const Layouts&) = delete;
  ~Layouts() {
    for (Layout& layout : all_)
      MPI_Type_free(&layout.type);
  }
  [[nodiscard]] const std::vector<Layout>& all() const { return all_; }

 private:
  /// `count` elements of a type with these blocks.
  void add(std::string name, MPI_Datatype type, const Blocks& blocks, int count = 1) {
    MPI_Type_commit(&type);
    MPI_Aint lower = 0;
    MPI_Aint step = 0;
    MPI_Type_get_extent(type, &lower, &step);
    Layout layout{.name = std::move(name), .type = type, .count = count};
    for (int i = 0; i < count; ++i)
      for (const auto& [offset, length] : blocks) {
        const std::size_t at = offset + static_cast<std::size_t>(step) * static_cast<std::size_t>(i);
        layout.blocks.emplace_back(at, length);
        layout.bytes += length;
        layout.extent = std::max(layout.extent, at + length);
      }
    all_.push_back(std::move(layout));
  }

  void vectors() {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    for (const int count : {1000, 40'000, 1'000'000}) {
      MPI_Type_vector(count, 1, 2, MPI_DOUBLE, &type);
      add("each second double of " + std::to_string(2 * count), type,
          strided(static_cast<std::size_t>(count), 8, 16));
    }
    MPI_Type_create_hvector(333, 100, 129, MPI_BYTE, &type);
    add("333 blocks of 100 bytes", type, strided(333, 100, 129));
    MPI_Type_vector(512, 4096, 8192, MPI_BYTE, &type);
    add("512 blocks of 4 KiB", type, strided(512, 4096, 8192));
    MPI_Type_vector(5, 1 << 20, (1 << 20) + 4, MPI_BYTE, &type);
    add("5 blocks of 1 MiB", type, strided(5, 1U << 20U, (1U << 20U) + 4));
    MPI_Type_vector(2, 3, 5, MPI_BYTE, &type);
    add("2 blocks of 3 bytes, 3 times", type, strided(2, 3, 5), 3);
    MPI_Type_contiguous(12'345, MPI_BYTE, &type);
    add("no gaps", type, strided(1, 12'345, 12'345), 3);
  }

  void subarrays() {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    const auto add_part = [&](std::array<int, 3> sizes, std::array<int, 3> parts, std::array<int, 3> starts) {
      MPI_Type_create_subarray(3, sizes.data(), parts.data(), starts.data(), MPI_ORDER_C, MPI_DOUBLE, &type);
      Blocks blocks;
      for (int z = 0; z < parts[0]; ++z)
        for (int y = 0; y < parts[1]; ++y) {
          const int first = ((z + starts[0]) * sizes[1] + y + starts[1]) * sizes[2] + starts[2];
          blocks.emplace_back(static_cast<std::size_t>(first) * 8, static_cast<std::size_t>(parts[2]) * 8);
        }
      add("a box of " + std::to_string(parts[0]) + " x " + std::to_string(parts[1]) + " x " +
              std::to_string(parts[2]),
          type, blocks);
    };
    add_part({70, 60, 50}, {33, 41, 27}, {5, 11, 13});
    add_part({64, 64, 64}, {64, 64, 1}, {0, 0, 63});
    add_part({64, 64, 64}, {1, 64, 64}, {3, 0, 0});
  }

  void irregular() {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    std::vector<int> lengths;
    std::vector<int> offsets;
    Blocks blocks;
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < 700; ++i) {
      const std::size_t length = 1 + mix(i) % 37;
      at += mix(i + 1000) % 11;
      lengths.push_back(static_cast<int>(length));
      offsets.push_back(static_cast<int>(at));
      blocks.emplace_back(at * 4, length * 4);
      at += length;
    }
    MPI_Type_indexed(700, lengths.data(), offsets.data(), MPI_INT, &type);
    add("700 blocks of any length", type, blocks);
    // The message goes through the buffer from its end to its beginning.
    offsets.clear();
    blocks.clear();
    for (int i = 499; i >= 0; --i) {
      offsets.push_back(i * 3);
      blocks.emplace_back(static_cast<std::size_t>(i) * 12, 8);
    }
    MPI_Type_create_indexed_block(500, 2, offsets.data(), MPI_INT, &type);
    add("500 blocks, the last first", type, blocks);
  }

  void nested() {
    MPI_Datatype inner = MPI_DATATYPE_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    const std::array<int, 3> lengths{1, 3, 2};
    const std::array<MPI_Aint, 3> offsets{0, 8, 24};
    const std::array<MPI_Datatype, 3> types{MPI_INT, MPI_FLOAT, MPI_DOUBLE};
    MPI_Type_create_struct(3, lengths.data(), offsets.data(), types.data(), &inner);
    MPI_Type_create_resized(inner, 0, 48, &type);
    MPI_Type_free(&inner);
    add("1234 structures", type, {{0, 4}, {8, 12}, {24, 16}}, 1234);
    MPI_Type_vector(128, 1, 256, MPI_FLOAT, &inner);
    MPI_Type_create_hvector(64, 1, 8, inner, &type);
    MPI_Type_free(&inner);
    Blocks blocks;
    for (std::size_t column = 0; column < 64; ++column)
      for (std::size_t row = 0; row < 128; ++row)
        blocks.emplace_back(column * 8 + row * 1024, 4);
    add("64 columns of a matrix", type, blocks);
  }

  std::vector<Layout> all_;
};

/// A buffer with a message in its places, and `untouched` between them.
Bytes image_of(const Layout& layout, std::uint64_t seed) {
  const Bytes message = pattern(seed, layout.bytes);
  Bytes image(layout.extent, untouched);
  auto next = message.begin();
  for (const auto& [offset, length] : layout.blocks) {
    std::copy_n(next, length, image.begin() + static_cast<std::ptrdiff_t>(offset));
    next += static_cast<std::ptrdiff_t>(length);
  }
  return image;
}

/// With gaps at both sides, at the sender's, at the receiver's.
enum class Form : std::uint8_t { both, sender, receiver };

void pass(const Setting& setting, Place from, Place to, const Layout& layout, Form form) {
  const std::uint64_t seed = mix(layout.bytes + static_cast<unsigned>(form));
  const bool is_sender = setting.rank == 0;
  const bool has_gaps = form == Form::both || (form == Form::sender) == is_sender;
  const Bytes image = has_gaps ? image_of(layout, seed) : pattern(seed, layout.bytes);
  const int count = has_gaps ? layout.count : static_cast<int>(layout.bytes);
  const MPI_Datatype type = has_gaps ? layout.type : MPI_BYTE;
  Region region(setting, is_sender ? from : to, image.size());
  if (is_sender) {
    region.write(image);
    expect_success(MPI_Send(region.data(), count, type, 1, 6, MPI_COMM_WORLD), layout.name);
    return;
  }
  region.clear();
  MPI_Status status;
  expect_success(MPI_Recv(region.data(), count, type, 0, 6, MPI_COMM_WORLD, &status), layout.name);
  int received = -1;
  MPI_Get_count(&status, MPI_BYTE, &received);
  expect(received == static_cast<int>(layout.bytes), "the status of " + layout.name);
  region.expect(image, layout.name + ", from " + std::string(name_of(from)));
}

void pack_and_unpack(const Setting& setting, Place place, Place packed_place, const Layout& layout) {
  const std::uint64_t seed = mix(layout.bytes);
  const Bytes image = image_of(layout, seed);
  const auto bytes = static_cast<int>(layout.bytes);
  Region from(setting, place, layout.extent);
  Region packed(setting, packed_place, layout.bytes);
  Region to(setting, place, layout.extent);
  from.write(image);
  packed.clear();
  to.clear();
  int position = 0;
  expect_success(
      MPI_Pack(from.data(), layout.count, layout.type, packed.data(), bytes, &position, MPI_COMM_WORLD),
      "Pack");
  expect(position == bytes, "the position behind " + layout.name);
  packed.expect(seed, layout.bytes, "packed: " + layout.name);
  position = 0;
  expect_success(
      MPI_Unpack(packed.data(), bytes, &position, to.data(), layout.count, layout.type, MPI_COMM_WORLD),
      "Unpack");
  to.expect(image, "unpacked: " + layout.name);
}

}  // namespace

void check_types(const Setting& setting) {
  const Layouts layouts;
  using enum Place;
  constexpr std::array places{device, device_odd, managed, pinned, pageable, shared_pool, vmm, default_pool};
  for (const Place from : places)
    for (const Place to : places) {
      if (is_host(from) && is_host(to)) continue;
      // Of the rest each place is once with cudaMalloc memory.
      if (setting.quick && from != device && to != device) continue;
      for (const Layout& layout : layouts.all())
        for (const Form form : {Form::both, Form::sender, Form::receiver})
          if (!setting.quick || layout.is_short() || from == to) pass(setting, from, to, layout, form);
    }
  for (const Place place : {device, managed, default_pool, vmm, pageable})
    for (const Place packed : {device, pageable, pinned})
      for (const Layout& layout : layouts.all())
        if (!setting.quick || layout.is_short()) pack_and_unpack(setting, place, packed, layout);
}

}  // namespace isthmus::gpu_check
