// Thread levels: what is asked for is what is given, and the main thread knows itself.
#include <thread>

#include "../check.h"

int main(int argc, char** argv) {
  const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  // A level for each number of ranks, so that all are seen.
  const char* size_text = std::getenv("ISTHMUS_WORLD_SIZE");
  const int required = levels[(size_text ? std::atoi(size_text) : 1) % 4];
  int provided = -1;
  MPI_Init_thread(&argc, &argv, required, &provided);
  CHECK_EQUAL(provided, required);
  int queried = -1;
  MPI_Query_thread(&queried);
  CHECK_EQUAL(queried, required);
  int is_main = 0;
  MPI_Is_thread_main(&is_main);
  CHECK(is_main);
  if (required >= MPI_THREAD_SERIALIZED) {
    std::thread([&] { MPI_Is_thread_main(&is_main); }).join();
    CHECK(!is_main);
  }
  MPI_Finalize();
  return 0;
}
