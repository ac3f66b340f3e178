// Memory that is freed and allocated anew, at the same addresses, in each round; and messages that go over
// the border of two allocations, as PyTorch's expandable segments have them.
#include <algorithm>
#include <array>
#include <memory>

#include "places.hpp"

namespace isthmus::gpu_check {
namespace {

constexpr std::array<std::size_t, 8> sizes{100,       4096,      65'536,    300'001,
                                           1'048'576, 2'097'160, 5'242'880, 65'535};

std::size_t size_of(const Setting& setting, int round) {
  return sizes[mix(static_cast<std::uint64_t>(round)) % (setting.quick ? 5 : sizes.size())];
}

void anew(const Setting& setting, Place place, bool here) {
  std::unique_ptr<Region> region;
  const int rounds = setting.quick ? 12 : 100;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t bytes = size_of(setting, round);
    if (!region || here) {
      region.reset();
      region = std::make_unique<Region>(setting, place, here ? bytes : sizes[6]);
    }
    const std::uint64_t seed = mix(static_cast<std::uint64_t>(round) * 10);
    const int count = static_cast<int>(bytes);
    if (setting.rank == 0) {
      region->fill(seed, bytes);
      expect_success(MPI_Send(region->data(), count, MPI_BYTE, 1, 9, MPI_COMM_WORLD), "Send");
    } else {
      region->clear();
      expect_success(MPI_Recv(region->data(), count, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                     "Recv");
      region->expect(seed, bytes, "memory allocated anew");
    }
  }
}

/// Both ways at once, from place to place.
void in_turn(const Setting& setting) {
  using enum Place;
  constexpr std::array places{device, default_pool, device,      vmm,       managed,   device,
                              pinned, private_vmm,  shared_pool, other_gpu, device_odd};
  for (int round = 0; round < (setting.quick ? 20 : 200); ++round) {
    const std::size_t bytes = size_of(setting, round);
    const auto place = [&](std::uint64_t what) {
      return places[mix(static_cast<std::uint64_t>(round * 2 + setting.rank) + what) % places.size()];
    };
    Region out(setting, place(0), bytes);
    Region in(setting, place(991), bytes);
    out.fill(mix(static_cast<std::uint64_t>(round * 4 + setting.rank)), bytes);
    in.clear();
    std::array<MPI_Request, 2> requests{};
    const int peer = 1 - setting.rank;
    MPI_Irecv(in.data(), static_cast<int>(bytes), MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out.data(), static_cast<int>(bytes), MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[1]);
    expect_success(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE), "Waitall");
    in.expect(mix(static_cast<std::uint64_t>(round * 4 + peer)), bytes, "places in turn");
  }
}

/// Two allocations of physical memory side by side in one range of addresses, which stays when they go.
class SideBySide {
 public:
  explicit SideBySide(const Setting& setting)
      : setting_(setting),
        properties_{.handle_types = cuda::HandleType::posix_descriptor,
                    .location = {cuda::LocationType::device, setting.gpu.device()}} {
    const cuda::Functions& cuda = setting_.gpu.functions();
    CHECK_CUDA(cuda.granularity(&grain_, &properties_, cuda::GranularityKind::recommended));
    CHECK_CUDA(cuda.address_reserve(&address_, 2 * grain_, 0, 0, 0));
  }
  SideBySide(const SideBySide&) = delete;
  SideBySide& operator=(const SideBySide&) = delete;
  ~SideBySide() { CHECK_CUDA(setting_.gpu.functions().address_free(address_, 2 * grain_)); }

  void map() {
    const cuda::Functions& cuda = setting_.gpu.functions();
    const cuda::Access access{.location = properties_.location, .flags = cuda::AccessFlags::read_write};
    for (const cuda::Address at : {address_, address_ + grain_}) {
      cuda::Physical physical = 0;
      CHECK_CUDA(cuda.physical_create(&physical, grain_, &properties_, 0));
      CHECK_CUDA(cuda.map(at, grain_, 0, physical, 0));
      CHECK_CUDA(cuda.physical_release(physical));
      CHECK_CUDA(cuda.set_access(at, grain_, &access, 1));
    }
  }
  void unmap() {
    for (const cuda::Address at : {address_, address_ + grain_})
      CHECK_CUDA(setting_.gpu.functions().unmap(at, grain_));
  }
  [[nodiscard]] cuda::Address middle() const { return address_ + grain_ / 2; }
  [[nodiscard]] std::size_t grain() const { return grain_; }
  /// A run of bytes that may lie in both.
  void copy(cuda::Address to, cuda::Address from, std::size_t bytes) const {
    const std::size_t first = std::min(bytes, grain_ / 2);
    for (const auto& [offset, length] : {std::pair(std::size_t{0}, first), std::pair(first, bytes - first)})
      if (length != 0) CHECK_CUDA(setting_.gpu.functions().copy(to + offset, from + offset, length));
    CHECK_CUDA(setting_.gpu.functions().stream_synchronize(default_stream));
  }

 private:
  const Setting& setting_;
  const cuda::AllocationProperties properties_;
  std::size_t grain_ = 0;
  cuda::Address address_ = 0;
};

void side_by_side(const Setting& setting, bool over_the_border) {
  SideBySide memory(setting);
  for (int round = 0; round < (setting.quick ? 6 : 100); ++round) {
    memory.map();
    const std::size_t bytes =
        over_the_border ? (round % 3 == 0 ? memory.grain() : memory.grain() / 2 + 100) : memory.grain() / 4;
    const Bytes wanted = pattern(mix(static_cast<std::uint64_t>(round)), bytes);
    Bytes got(bytes, untouched);
    void* const data = reinterpret_cast<void*>(memory.middle());
    if (setting.rank == 0) {
      memory.copy(memory.middle(), reinterpret_cast<cuda::Address>(wanted.data()), bytes);
      expect_success(MPI_Send(data, static_cast<int>(bytes), MPI_BYTE, 1, 2, MPI_COMM_WORLD), "Send");
    } else {
      memory.copy(memory.middle(), reinterpret_cast<cuda::Address>(got.data()), bytes);
      expect_success(
          MPI_Recv(data, static_cast<int>(bytes), MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "Recv");
      memory.copy(reinterpret_cast<cuda::Address>(got.data()), memory.middle(), bytes);
      expect(got == wanted,
             over_the_border ? "a message over two allocations" : "a message in memory mapped anew");
    }
    memory.unmap();
  }
}

}  // namespace

void check_again(const Setting& setting) {
  using enum Place;
  for (const Place place : {device, default_pool, vmm, pinned, managed, shared_pool, private_vmm})
    for (const int who : {1, 2, 3})  // the sender, the receiver, both
      anew(setting, place, (who >> setting.rank & 1) != 0);
  in_turn(setting);
  side_by_side(setting, false);
}

void check_span(const Setting& setting) {
  side_by_side(setting, true);
}

}  // namespace isthmus::gpu_check
