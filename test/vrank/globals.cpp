// Globals, statics, inline variables and thread-local variables of each rank are its own; constructors and
// destructors run once for each; the option parser, the environment and the arguments are each rank's.
#include <getopt.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

int plain = 7;
static std::vector<int> filled{1, 2, 3};
inline int in_header = 5;
thread_local int of_thread = 11;
thread_local std::string text_of_thread = "begin";

struct Told {
  int constructed = 1;
  ~Told() { std::printf("destroyed by rank %d after %d steps\n", rank, steps); }
  int rank = -1;
  int steps = 0;
};
static Told told;

static int failures = 0;
static void check(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::cout << "rank " << told.rank << ": " << what << " does not hold" << std::endl;
}

static int& counter() {
  static int count = 0;
  return count;
}

static bool is_in_environ(const std::string& entry) {
  for (char** each = environ; *each; ++each)
    if (entry == *each) return true;
  return false;
}

static void leave() {
  std::printf("atexit of rank %d\n", told.rank);
}

/// An exception is in flight while other ranks throw and catch theirs.
static int thrown(int rank, MPI_Comm comm) {
  try {
    throw std::runtime_error(std::to_string(rank));
  } catch (const std::runtime_error& error) {
    MPI_Barrier(comm);
    return std::atoi(error.what());
  }
}

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  int level = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  told.rank = rank;
  std::atexit(leave);
  if (std::getenv("TEST_FUNNELED")) check(level == MPI_THREAD_FUNNELED, "the thread level");

  // Others parse theirs between two options, also between two of one word.
  int number = 0, verbose = 0;
  for (int option; (option = getopt(argc, argv, "n:v")) != -1;) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (option == 'n') number = std::atoi(optarg);
    if (option == 'v') ++verbose;
  }
  check(number == 42 && verbose == 3, "the options");
  check(optind < argc && std::strcmp(argv[optind], "rest") == 0, "the place after the options");
  argv[optind][0] = static_cast<char>('a' + rank);  // the others' stays

  const char* own_rank = std::getenv("ISTHMUS_WORLD_RANK");
  check(own_rank && std::atoi(own_rank) == rank, "ISTHMUS_WORLD_RANK");
  setenv("TEST_OWN", std::to_string(rank).c_str(), 1);
  std::cout.precision(rank + 1);
  for (int step = 0; step < 20; ++step) {
    ++plain;
    ++in_header;
    ++of_thread;
    ++counter();
    ++told.steps;
    filled.push_back(rank);
    text_of_thread += static_cast<char>('a' + rank % 26);
    errno = 1000 + rank;
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    check(errno == 1000 + rank, "errno over a switch");
    check(thrown(rank, MPI_COMM_WORLD) == rank, "the exception in flight");
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == size * (size - 1) / 2, "the sum");
  }
  check(plain == 27, "the global");
  check(in_header == 25, "the inline variable");
  check(of_thread == 31, "the thread-local variable");
  check(counter() == 20, "the static of a function");
  check(filled.size() == 23 && filled.back() == rank, "the global vector");
  check(text_of_thread == "begin" + std::string(20, static_cast<char>('a' + rank % 26)),
        "the thread-local string");
  check(argv[optind][0] == 'a' + rank, "the argument");
  check(std::atoi(std::getenv("TEST_OWN")) == rank, "the environment");
  check(is_in_environ("TEST_OWN=" + std::to_string(rank)), "the environment in environ");
  check(std::cout.precision() == rank + 1, "the format of std::cout");
  // As one piece: ranks of other workers write meanwhile.
  std::ostringstream line;
  line << "rank " << rank << " of " << size << ": " << failures << " failures\n";
  std::cout << line.str() << std::flush;
  MPI_Finalize();
  return failures != 0;
}
