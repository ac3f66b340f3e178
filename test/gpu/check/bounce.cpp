// Messages between GPU memories that no other process can open.
#include <array>
#include <memory>

#include "places.hpp"

namespace isthmus::gpu_check {
namespace {

constexpr std::array closed{Place::default_pool, Place::private_vmm, Place::managed};

/// Managed memory is where it was asked to go, which `clear` does not.
void settle(Region& region) {
  region.fill(0, region.bytes());
  region.clear();
}

void exchange(const Setting& setting, Place from, Place to, std::size_t bytes, int sender) {
  const std::uint64_t seed = mix(bytes * 31 + static_cast<unsigned>(sender));
  if (setting.rank == sender) {
    Region region(setting, from, bytes);
    region.fill(seed, bytes);
    expect_success(MPI_Send(region.data(), static_cast<int>(bytes), MPI_BYTE, 1 - sender, 3, MPI_COMM_WORLD),
                   "Send");
    return;
  }
  Region region(setting, to, bytes + 64);
  settle(region);
  // Room for more than comes.
  expect_success(MPI_Recv(region.data(), static_cast<int>(bytes) + 64, MPI_BYTE, sender, 3, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE),
                 "Recv");
  region.expect(seed, bytes, "alone, from " + std::string(name_of(from)));
}

/// One at a time, so that they are latency-bound: bytes of each round differ.
void pass_to_and_fro(const Setting& setting, Place place, std::size_t bytes, int rounds) {
  Region out(setting, place, bytes);
  Region in(setting, place, bytes);
  settle(in);
  const int other = 1 - setting.rank;
  const auto size = static_cast<int>(bytes);
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t seed = mix(bytes + static_cast<std::uint64_t>(i));
    if (setting.rank == 0) {
      if (i % 16 == 0) out.fill(seed, bytes);
      expect_success(MPI_Send(out.data(), size, MPI_BYTE, other, 4, MPI_COMM_WORLD), "Send");
      expect_success(MPI_Recv(in.data(), size, MPI_BYTE, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                     "Recv");
    } else {
      expect_success(MPI_Recv(in.data(), size, MPI_BYTE, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                     "Recv");
      if (i % 16 == 0) out.fill(seed, bytes);
      expect_success(MPI_Send(out.data(), size, MPI_BYTE, other, 4, MPI_COMM_WORLD), "Send");
    }
    if (i % 16 == 0) in.expect(seed, bytes, "to and fro");
  }
}

/// Many at a time, both ways, of several lengths, received in another order than they are sent.
void cross(const Setting& setting, Place place, std::size_t longest) {
  constexpr int count = 24;
  std::vector<std::unique_ptr<Region>> out;
  std::vector<std::unique_ptr<Region>> in;
  const auto size_of = [&](int i) { return longest >> static_cast<unsigned>(i % 6) | 1U; };
  const auto seed_of = [](int rank, int i) { return mix(static_cast<std::uint64_t>(rank * 1000 + i)); };
  std::vector<MPI_Request> requests;
  for (int i = 0; i < count; ++i) {
    out.push_back(std::make_unique<Region>(setting, place, size_of(i)));
    out.back()->fill(seed_of(setting.rank, i), size_of(i));
    in.push_back(std::make_unique<Region>(setting, place, size_of(i)));
    settle(*in.back());
  }
  for (int i = 0; i < count; ++i)
    MPI_Isend(out[static_cast<std::size_t>(i)]->data(), static_cast<int>(size_of(i)), MPI_BYTE,
              1 - setting.rank, i, MPI_COMM_WORLD, &requests.emplace_back());
  for (int i = count; i-- > 0;)
    MPI_Irecv(in[static_cast<std::size_t>(i)]->data(), static_cast<int>(size_of(i)), MPI_BYTE,
              1 - setting.rank, i, MPI_COMM_WORLD, &requests.emplace_back());
  expect_success(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
                 "Waitall");
  for (int i = 0; i < count; ++i)
    in[static_cast<std::size_t>(i)]->expect(seed_of(1 - setting.rank, i), size_of(i), "both ways");
}

}  // namespace

void check_bounce(const Setting& setting) {
  const std::size_t longest = setting.quick ? std::size_t{5} << 20 : std::size_t{64} << 20;
  for (const Place from : closed)
    for (const Place to : closed)
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{8}, std::size_t{4097}, std::size_t{65'536},
                                      std::size_t{1'048'579}, std::size_t{3} << 20, longest + 1})
        for (int sender = 0; sender < 2; ++sender)
          if (bytes < longest || sender == 0) exchange(setting, from, to, bytes, sender);
  for (const Place place : closed) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{16'384}})
      pass_to_and_fro(setting, place, bytes, setting.quick ? 64 : 2000);
    cross(setting, place, setting.quick ? std::size_t{1} << 20 : std::size_t{16} << 20);
  }
}

}  // namespace isthmus::gpu_check
