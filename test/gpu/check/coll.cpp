// Collectives with the data of both ranks at the same place, or at two different ones.
#include <algorithm>
#include <array>
#include <functional>

#include "places.hpp"

namespace isthmus::gpu_check {
namespace {

Bytes joined(const std::function<Bytes(int)>& part, int parts) {
  Bytes all;
  for (int i = 0; i < parts; ++i) {
    const Bytes next = part(i);
    all.insert(all.end(), next.begin(), next.end());
  }
  return all;
}

/// Collectives of `bytes` from each member, in memory at `place`.
class Data {
 public:
  Data(const Setting& setting, Place place, std::size_t bytes)
      : setting_(setting),
        bytes_(bytes),
        count_(static_cast<int>(bytes)),
        one_(setting, place, bytes),
        all_(setting, place, bytes * static_cast<std::size_t>(setting.size)) {}

  void run() {
    for (int root = 0; root < setting_.size; ++root)
      bcast(root);
    allgather();
    for (int root = 0; root < setting_.size; ++root)
      gather_and_scatter(root);
    alltoall();
    alltoallv();
  }

 private:
  [[nodiscard]] Bytes of(int rank, int part = 0) const {
    return pattern(mix(bytes_ + static_cast<std::uint64_t>(rank) * 100 + static_cast<std::uint64_t>(part)),
                   bytes_);
  }
  [[nodiscard]] Bytes of_all() const {
    return joined([this](int i) { return of(i); }, setting_.size);
  }

  void bcast(int root) {
    one_.clear();
    if (setting_.rank == root) one_.write(of(root));
    expect_success(MPI_Bcast(one_.data(), count_, MPI_BYTE, root, MPI_COMM_WORLD), "Bcast");
    one_.expect(of(root), "Bcast");
  }
  void allgather() {
    one_.write(of(setting_.rank));
    all_.clear();
    expect_success(
        MPI_Allgather(one_.data(), count_, MPI_BYTE, all_.data(), count_, MPI_BYTE, MPI_COMM_WORLD),
        "Allgather");
    all_.expect(of_all(), "Allgather");
    expect_success(MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, all_.data(), count_, MPI_BYTE, MPI_COMM_WORLD),
                   "Allgather in place");
    all_.expect(of_all(), "Allgather in place");
  }
  void gather_and_scatter(int root) {
    one_.clear();
    one_.write(of(setting_.rank));
    all_.clear();
    expect_success(
        MPI_Gather(one_.data(), count_, MPI_BYTE, all_.data(), count_, MPI_BYTE, root, MPI_COMM_WORLD),
        "Gather");
    if (setting_.rank == root) all_.expect(of_all(), "Gather");
    one_.clear();
    expect_success(
        MPI_Scatter(all_.data(), count_, MPI_BYTE, one_.data(), count_, MPI_BYTE, root, MPI_COMM_WORLD),
        "Scatter");
    one_.expect(of(setting_.rank), "Scatter");
  }
  void alltoall() {
    Region other(setting_, all_.place(), all_.bytes());
    const int rank = setting_.rank;
    const Bytes leaving = joined([&](int to) { return of(rank, to); }, setting_.size);
    const Bytes coming = joined([&](int from) { return of(from, rank); }, setting_.size);
    all_.write(leaving);
    other.clear();
    expect_success(
        MPI_Alltoall(all_.data(), count_, MPI_BYTE, other.data(), count_, MPI_BYTE, MPI_COMM_WORLD),
        "Alltoall");
    other.expect(coming, "Alltoall");
    other.clear();
    other.write(leaving);
    expect_success(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, other.data(), count_, MPI_BYTE, MPI_COMM_WORLD),
                   "Alltoall in place");
    other.expect(coming, "Alltoall in place");
  }
  /// Parts of unequal length, in the opposite order, with gaps between them.
  void alltoallv() {
    constexpr std::size_t gap = 5;
    const auto part = [this](int from, int to) {
      return bytes_ / 2 + static_cast<std::size_t>(from * 3 + to) * (bytes_ / 8);
    };
    std::array<int, 2> send_counts{}, sends{}, receive_counts{}, receives{};
    std::size_t leaving = 0;
    std::size_t coming = 0;
    for (int i = setting_.size - 1; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(i);
      send_counts[at] = static_cast<int>(part(setting_.rank, i));
      receive_counts[at] = static_cast<int>(part(i, setting_.rank));
      sends[at] = static_cast<int>(std::exchange(leaving, leaving + part(setting_.rank, i) + gap));
      receives[at] = static_cast<int>(std::exchange(coming, coming + part(i, setting_.rank) + gap));
    }
    Bytes out(leaving, 0);
    Bytes wanted(coming, untouched);
    for (int i = 0; i < setting_.size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      std::ranges::copy(
          pattern(mix(bytes_ + static_cast<std::uint64_t>(setting_.rank * 9 + i)), part(setting_.rank, i)),
          out.begin() + sends[at]);
      std::ranges::copy(
          pattern(mix(bytes_ + static_cast<std::uint64_t>(i * 9 + setting_.rank)), part(i, setting_.rank)),
          wanted.begin() + receives[at]);
    }
    Region from(setting_, one_.place(), leaving);
    Region to(setting_, one_.place(), coming);
    from.write(out);
    to.clear();
    expect_success(MPI_Alltoallv(from.data(), send_counts.data(), sends.data(), MPI_BYTE, to.data(),
                                 receive_counts.data(), receives.data(), MPI_BYTE, MPI_COMM_WORLD),
                   "Alltoallv");
    to.expect(wanted, "Alltoallv");
  }

  const Setting& setting_;
  const std::size_t bytes_;
  const int count_;
  Region one_, all_;
};

Bytes bytes_of(const std::vector<std::int64_t>& values) {
  const auto* const first = reinterpret_cast<const unsigned char*>(values.data());
  return {first, first + values.size() * sizeof(std::int64_t)};
}

/// Sums of integers, which are the same in any order.
void reductions(const Setting& setting, Place place, std::size_t count) {
  const auto operand = [&](int rank) {
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<std::int64_t>(i % 1000) * (rank + 1) + rank;
    return values;
  };
  const auto sum_to = [&](int last) {
    std::vector<std::int64_t> values(count);
    for (int rank = 0; rank <= last; ++rank)
      std::ranges::transform(values, operand(rank), values.begin(), std::plus());
    return values;
  };
  const Bytes mine = bytes_of(operand(setting.rank));
  const Bytes sum = bytes_of(sum_to(setting.size - 1));
  const int n = static_cast<int>(count);
  Region in(setting, place, mine.size());
  Region out(setting, place, mine.size());
  in.clear();
  in.write(mine);
  out.clear();
  expect_success(MPI_Allreduce(in.data(), out.data(), n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "Allreduce");
  out.expect(sum, "Allreduce");
  in.expect(mine, "Allreduce's operand");
  out.clear();
  expect_success(MPI_Scan(in.data(), out.data(), n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "Scan");
  out.expect(bytes_of(sum_to(setting.rank)), "Scan");
  for (int root = 0; root < setting.size; ++root) {
    out.clear();
    expect_success(MPI_Reduce(in.data(), out.data(), n, MPI_INT64_T, MPI_SUM, root, MPI_COMM_WORLD),
                   "Reduce");
    out.expect(setting.rank == root ? sum : Bytes(), "Reduce");
  }
  if (count % 2 == 0) {
    Region half(setting, place, mine.size() / 2);
    half.clear();
    expect_success(
        MPI_Reduce_scatter_block(in.data(), half.data(), n / 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
        "Reduce_scatter_block");
    const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(mine.size() / 2) * setting.rank;
    half.expect(Bytes(begin, begin + static_cast<std::ptrdiff_t>(mine.size() / 2)), "Reduce_scatter_block");
  }
  expect_success(MPI_Allreduce(MPI_IN_PLACE, in.data(), n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
                 "Allreduce in place");
  in.expect(sum, "Allreduce in place");
}

void reduce_local(const Setting& setting, Place from, Place to) {
  const std::vector<std::int64_t> twos(5000, 2);
  const std::vector<std::int64_t> threes(5000, 3);
  Region in(setting, from, twos.size() * sizeof twos[0]);
  Region out(setting, to, in.bytes());
  in.write(bytes_of(twos));
  out.clear();
  out.write(bytes_of(threes));
  expect_success(MPI_Reduce_local(in.data(), out.data(), static_cast<int>(twos.size()), MPI_INT64_T, MPI_SUM),
                 "Reduce_local");
  out.expect(bytes_of(std::vector<std::int64_t>(5000, 5)), "Reduce_local");
}

}  // namespace

void check_coll(const Setting& setting) {
  using enum Place;
  // What rank 0 has and what rank 1 has.
  constexpr std::array<std::array<Place, 2>, 12> pairs{{{device, device},
                                                        {vmm, vmm},
                                                        {default_pool, default_pool},
                                                        {shared_pool, device},
                                                        {managed, managed},
                                                        {managed_host, managed},
                                                        {managed_host, managed_host},
                                                        {device, pageable},
                                                        {pinned, device},
                                                        {other_gpu, device},
                                                        {device_odd, device_odd},
                                                        {private_vmm, device}}};
  for (const auto& pair : pairs) {
    const Place place = pair[static_cast<std::size_t>(setting.rank)];
    for (const std::size_t bytes : {0, 1, 8, 4095, 65'536, 1'048'579})
      Data(setting, place, bytes).run();
    if (!setting.quick) Data(setting, place, std::size_t{16} << 20U).run();
    if (place == device_odd) continue;  // an element is aligned
    for (const std::size_t count : {0, 1, 3, 1000, 40'000})
      reductions(setting, place, count);
  }
  for (const Place from : {device, managed, vmm, pageable, pinned, default_pool})
    for (const Place to : {device, managed, vmm, pageable, pinned, default_pool})
      reduce_local(setting, from, to);
}

}  // namespace isthmus::gpu_check
