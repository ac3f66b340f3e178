// Ranks move between the workers of their process, and everything that they have goes along: thread-local
// variables, exceptions in flight, the environment, open files, receives and messages that are under way. The
// argument says what is tried.
#include <getopt.h>
#include <mpi-ext.h>
#include <mpi.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

static int rank, size, failures;
thread_local int of_thread = 1;
static int global = 1;

static void check(bool holds, const char* what, int step = -1) {
  if (holds) return;
  ++failures;
  std::printf("rank %d, step %d: %s does not hold\n", rank, step, what);
}

static long thread_of_kernel() {
  return syscall(SYS_gettid);
}

static int worker_now(int* workers = nullptr) {
  int worker = -1, all = -1;
  MPIX_Get_worker(&worker, &all);
  if (workers) *workers = all;
  return worker;
}

/// Ranks of one worker run on one thread, and those of two workers on two.
static void compare_threads(int step) {
  struct Where {
    long process, worker, thread;
  };
  const Where own{getpid(), worker_now(), thread_of_kernel()};
  std::vector<Where> all(static_cast<std::size_t>(size));
  MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, MPI_COMM_WORLD);
  for (const Where& each : all)
    if (each.process == own.process)
      check((each.worker == own.worker) == (each.thread == own.thread), "a worker is a thread", step);
}

static int throw_and_move(int step, int workers) {
  try {
    throw std::runtime_error(std::to_string(step));
  } catch (const std::runtime_error& error) {
    MPIX_Migrate((worker_now() + 1) % workers);
    return std::atoi(error.what());
  }
}

static void parse_options(int count, char** words, int workers) {
  optind = 1;
  std::string seen;
  for (int option; (option = getopt(count, words, "an:")) != -1;) {
    seen += static_cast<char>(option);
    if (option == 'n') seen += optarg;
    if (seen == "a") MPIX_Migrate((rank + 1) % workers);
  }
  check(seen == "an42a", "the options");
  check(optind == 4 && std::strcmp(words[optind], "move") == 0, "the place after the options");
}

static void move_about() {
  int workers = 0;
  check(worker_now(&workers) >= 0 && workers > 0, "the worker");
  MPI_Comm comm;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
  MPI_Datatype column;
  MPI_Type_vector(50, 1, 2, MPI_INT, &column);
  MPI_Type_commit(&column);
  std::FILE* const file = std::tmpfile();
  std::vector<int> heap(20000);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int step = 0; step < 300; ++step) {
    const int to = (rank + step) % workers;
    std::vector<int> far(20000), column_of(100, -1);
    int early = -1;
    MPI_Request requests[4];
    // Short and long, with a derived datatype, and one that nobody awaits yet.
    for (std::size_t i = 0; i < heap.size(); ++i)
      heap[i] = rank * 1000 + step;
    MPI_Irecv(far.data(), static_cast<int>(far.size()), MPI_INT, before, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(column_of.data(), 1, column, before, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(heap.data(), static_cast<int>(heap.size()), MPI_INT, next, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Send(heap.data(), 50, MPI_INT, next, 2, MPI_COMM_WORLD);
    MPI_Isend(&step, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[3]);
    errno = step;
    of_thread += 1;
    global += 1;
    check(MPIX_Migrate(to) == MPI_SUCCESS, "MPIX_Migrate", step);
    check(errno == step, "errno", step);
    check(worker_now() == to, "MPIX_Get_worker", step);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Recv(&early, 1, MPI_INT, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(early == step, "the message that nobody awaited", step);
    for (const int each : far)
      if (each != before * 1000 + step) check(false, "the long message", step), std::exit(1);
    for (int i = 0; i < 50; ++i)
      check(column_of[2 * i] == before * 1000 + step && column_of[2 * i + 1] == -1, "the column", step);
    int sum = 0, members = 0;
    MPI_Comm_size(comm, &members);
    MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, comm);
    check(sum == members * step, "the sum", step);
    if (step % 10 == 0) {
      check(throw_and_move(step, workers) == step, "the exception in flight", step);
      setenv("TEST_OWN", std::to_string(rank * 1000 + step).c_str(), 1);
      std::fprintf(file, "%d\n", step);
      compare_threads(step);
      check(std::atoi(std::getenv("TEST_OWN")) == rank * 1000 + step, "the environment", step);
    }
    check(of_thread == step + 2 && global == step + 2, "variables", step);
  }
  unsetenv("TEST_OWN");
  check(!std::getenv("TEST_OWN"), "what is no more in the environment");
  const char* const own_rank = std::getenv("ISTHMUS_WORLD_RANK");
  check(own_rank && std::atoi(own_rank) == rank, "ISTHMUS_WORLD_RANK");
  check(std::fseek(file, 0, SEEK_SET) == 0, "fseek");
  int line = -1, lines = 0;
  for (; std::fscanf(file, "%d", &line) == 1; ++lines)
    check(line == lines * 10, "the file");
  check(lines == 30, "the lines of the file");
  std::fclose(file);
  MPI_Type_free(&column);
  MPI_Comm_free(&comm);
}

static void ask_wrongly() {
  int workers = 0;
  worker_now(&workers);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const auto class_of = [](int code) {
    int error_class = -1;
    MPI_Error_class(code, &error_class);
    return error_class;
  };
  const int before = worker_now();
  check(class_of(MPIX_Migrate(workers)) == MPI_ERR_ARG, "too large");
  check(class_of(MPIX_Migrate(-1)) == MPI_ERR_ARG, "negative");
  check(class_of(MPIX_Get_worker(nullptr, &workers)) == MPI_ERR_ARG, "nowhere to write to");
  check(worker_now() == before, "it has not moved");
}

/// Works for that long, by the time of the thread.
static void work(double seconds) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  for (const double end = now() + seconds; now() < end;)
    ;
}

/// The first half of the ranks has all the work, and with blocks of neighbours the first workers have it.
static void balance() {
  int workers = 0;
  worker_now(&workers);
  struct Where {
    int process, worker;
  };
  std::vector<Where> all(static_cast<std::size_t>(size));
  const auto gather = [&] {
    const Where own{getpid(), worker_now()};
    MPI_Allgather(&own, 2, MPI_INT, all.data(), 2, MPI_INT, MPI_COMM_WORLD);
  };
  const auto count = [&](int worker) {
    int with = 0;
    for (int i = 0; i < size / 2; ++i)
      with += all[static_cast<std::size_t>(i)].worker == worker ? 1 : 0;
    return with;
  };
  gather();
  check(count(0) == size / workers, "the first worker has the first ranks");
  for (int i = 0; i < 3; ++i) {
    if (rank < size / 2) work(0.02);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  check(MPIX_Load_balance() == MPI_SUCCESS, "MPIX_Load_balance");
  gather();
  for (int worker = 0; worker < workers; ++worker)
    check(count(worker) > 0, "each worker has some of those who work");
  compare_threads(0);
  // Nothing has happened since, so nothing is to be gained.
  check(MPIX_Load_balance() == MPI_SUCCESS, "MPIX_Load_balance again");
  compare_threads(1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string what = argv[argc - 1];
  int workers = 1;
  worker_now(&workers);
  compare_threads(-1);
  if (what == "move") {
    parse_options(argc, argv, workers);
    move_about();
  }
  if (what == "errors") ask_wrongly();
  if (what == "balance") balance();
  int all = 0;
  MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d ranks, %d workers, %d failures\n", size, workers, all);
  MPI_Finalize();
  return failures != 0;
}
