/* ISTHMUS_PROGRESS=thread: what is under way goes on while a rank is not in MPI, at every thread level and in
 * sessions, and the thread sleeps while there is nothing. ranks: 2 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "../check.h"

static int rank;

/* A word that both ranks see without MPI: rank 0 makes it, rank 1 opens it by rank 0's name for it. */
static std::atomic<int>* shared_word() {
  long name[2] = {getpid(), rank == 0 ? memfd_create("word", 0) : -1};
  if (rank == 0) CHECK(ftruncate((int)name[1], sizeof(int)) == 0);
  CHECK_MPI(MPI_Bcast(name, 2, MPI_LONG, 0, MPI_COMM_WORLD));
  const std::string path = "/proc/" + std::to_string(name[0]) + "/fd/" + std::to_string(name[1]);
  const int file = open(path.c_str(), O_RDWR);
  CHECK(file >= 0);
  void* const memory = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(memory != MAP_FAILED);
  close(file);
  MPI_Barrier(MPI_COMM_WORLD);
  return static_cast<std::atomic<int>*>(memory);
}

/* Until the other rank has set `word`, without MPI. It would not if that needed this rank's calls. */
static bool is_set(const std::atomic<int>& word, int value) {
  for (int i = 0; i < 30000 && word.load() != value; ++i)
    usleep(1000);
  return word.load() == value;
}

/* Rank 0 starts, and is not in MPI until rank 1 has said that all is complete there. */
static void goes_on_alone(std::atomic<int>& word, int value, int count) {
  std::vector<int> in((size_t)count, rank + value), out((size_t)count, -1), moved((size_t)count, rank);
  MPI_Request requests[3];
  CHECK_MPI(MPI_Iallreduce(in.data(), out.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
  CHECK_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]));
  CHECK_MPI(rank == 0 ? MPI_Irecv(moved.data(), count, MPI_INT, 1, value, MPI_COMM_WORLD, &requests[2])
                      : MPI_Issend(moved.data(), count, MPI_INT, 0, value, MPI_COMM_WORLD, &requests[2]));
  if (rank == 0) CHECK(is_set(word, value));
  CHECK_MPI(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
  if (rank == 1) word.store(value);
  CHECK(out == std::vector<int>((size_t)count, 2 * value + 1));
  CHECK(moved == std::vector<int>((size_t)count, 1));
  MPI_Barrier(MPI_COMM_WORLD);
}

/* How often threads other than this one have gone to sleep. */
static long sleeps_of_others() {
  long sum = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* const entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid()) continue;
    const std::string path = std::string("/proc/self/task/") + entry->d_name + "/status";
    FILE* const file = fopen(path.c_str(), "r");
    char line[256];
    long switches = 0;
    while (file && fgets(line, sizeof line, file))
      if (sscanf(line, "voluntary_ctxt_switches: %ld", &switches) == 1) sum += switches;
    if (file) fclose(file);
  }
  closedir(tasks);
  return sum;
}

static void sleeps_without_work() {
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(100'000);
  const long before = sleeps_of_others();
  usleep(300'000);
  /* It looks up once a second, and would look a thousand times if it had something to wait for. */
  CHECK(sleeps_of_others() - before < 20);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void sessions() {
  for (int i = 0; i < 2; ++i) {
    MPI_Session session;
    CHECK_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    CHECK_MPI(MPI_Session_finalize(&session));
  }
}

int main(int argc, char** argv) {
  setenv("ISTHMUS_PROGRESS", "thread", 1);
  sessions();
  int provided = -1;
  MPI_Init_thread(&argc, &argv, argc > 1 ? atoi(argv[1]) : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::atomic<int>& word = *shared_word();
  int value = 0;
  for (const int count : {1, 300, 20000, 1 << 18})
    for (int i = 0; i < 3; ++i)
      goes_on_alone(word, ++value, count);
  sleeps_without_work();
  goes_on_alone(word, ++value, 1 << 18);
  MPI_Finalize();
  return 0;
}
