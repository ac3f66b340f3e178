// MPI with GPU memory as a program from outside would use it: everything to and from every place that memory
// can be at. At 2 ranks; prints nothing when all is right. Arguments: a group, or several, and how often:
// flight x 50. With `quick` fewer and shorter messages.
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "places.hpp"

namespace {

using namespace isthmus::gpu_check;

using Group = void (*)(const Setting&);
constexpr std::array<std::pair<std::string_view, Group>, 11> groups{{{"matrix", check_matrix},
                                                                     {"types", check_types},
                                                                     {"flight", check_flight},
                                                                     {"calls", check_calls},
                                                                     {"coll", check_coll},
                                                                     {"again", check_again},
                                                                     {"span", check_span},
                                                                     {"threads", check_threads},
                                                                     {"streams", check_streams},
                                                                     {"bounce", check_bounce},
                                                                     {"times", measure_times}}};

int times(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  CHECK(error == std::errc() && end == text.data() + text.size());
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK_EQUAL(size, 2);
  {
    const isthmus::testing_gpu::Gpu gpu(rank);
    Setting setting{.gpu = gpu, .rank = rank, .size = size, .quick = false};
    Group last = nullptr;
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (word == "quick") {
        setting.quick = true;
      } else if (word == "x") {
        CHECK(last != nullptr && i + 1 < argc);
        for (int left = times(argv[++i]) - 1; left > 0; --left)
          last(setting);
      } else {
        last = nullptr;
        for (const auto& [name, group] : groups)
          if (name == word) last = group;
        CHECK(last != nullptr);
        last(setting);
      }
    }
    CHECK(last != nullptr);
    MPI_Finalize();
  }
  return 0;
}
