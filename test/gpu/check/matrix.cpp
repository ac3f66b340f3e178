// Messages from every place to every other, and what is beyond their ends.
#include "places.hpp"

namespace isthmus::gpu_check {

void check_matrix(const Setting& setting) {
  const std::size_t top = setting.quick ? std::size_t{1} << 20 : std::size_t{64} << 20;
  const std::size_t long_from = setting.quick ? 65'536 : std::size_t{2} << 20;
  const std::vector<std::size_t> sizes{0, 1, 7, 8, 4095, 65'536, 1'048'579, std::size_t{64} << 20};
  for (std::size_t s = 0; s < place_count; ++s) {
    Region from(setting, static_cast<Place>(s), top + 3);
    for (std::size_t r = 0; r < place_count; ++r) {
      const std::string what = "from " + std::string(name_of(static_cast<Place>(s)));
      for (int sender = 0; sender < 2; ++sender)
        for (const std::size_t bytes : sizes) {
          // The longest in one direction, where both are alike or a plain GPU's.
          if (bytes > top + 3 || (bytes > long_from && (sender == 1 || (s != 0 && r != 0 && s != r))))
            continue;
          const std::uint64_t seed =
              mix(s * 1'000'003 + r * 1009 + bytes + static_cast<unsigned>(sender) * 77U);
          if (setting.rank == sender) {
            from.fill(seed, bytes);
            expect_success(
                MPI_Send(from.data(), static_cast<int>(bytes), MPI_BYTE, 1 - setting.rank, 5, MPI_COMM_WORLD),
                "Send");
            continue;
          }
          Region to(setting, static_cast<Place>(r), bytes);
          to.clear();
          MPI_Status status;
          expect_success(
              MPI_Recv(to.data(), static_cast<int>(bytes), MPI_BYTE, sender, 5, MPI_COMM_WORLD, &status),
              "Recv");
          int count = -1;
          MPI_Get_count(&status, MPI_BYTE, &count);
          CHECK_EQUAL(count, bytes);
          to.expect(seed, bytes, what);
        }
    }
  }
}

}  // namespace isthmus::gpu_check
