// What keeps a rank in its process, and how ranks end that have gone to another one. The last argument says
// what is tried. Ranks with an odd number go to the next process, and the others stay.
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi-ext.h>
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cwchar>
#include <functional>
#include <string>
#include <thread>
#include <vector>

static int rank, size, workers, failures;

static void check(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::printf("rank %d: %s does not hold\n", rank, what);
}

static int worker_now() {
  int worker = -1;
  MPIX_Get_worker(&worker, &workers);
  return worker;
}

static int class_of(int code) {
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  return error_class;
}

/// Ranks from the second on of each pair go to the next worker.
static int go() {
  const int to = rank % 2 == 1 ? (worker_now() + 1) % workers : worker_now();
  return MPIX_Migrate_all(to);
}

/// With what `tie` does the odd ranks stay, and without it they go.
static void tied(const std::function<void()>& tie, const std::function<void()>& untie, const char* sentence) {
  const int before = worker_now();
  if (rank % 2 == 1) tie();
  const int code = go();
  if (rank % 2 == 1) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    check(class_of(code) == MPI_ERR_OTHER, "MPI_ERR_OTHER");
    check(std::strstr(text, sentence) != nullptr, text);
    check(worker_now() == before, "it stays");
  } else {
    check(code == MPI_SUCCESS, "the others are not concerned");
  }
  if (!untie) return;
  if (rank % 2 == 1) untie();
  check(go() == MPI_SUCCESS, "it goes when nothing keeps it");
  check(rank % 2 == 0 || worker_now() != before, "it has gone");
}

/// The first half of the ranks has all the work, and is in the first processes.
static void balance() {
  for (int i = 0; i < 3; ++i) {
    if (rank < size / 2) {
      const double end = static_cast<double>(std::clock()) + 0.02 * CLOCKS_PER_SEC;
      while (static_cast<double>(std::clock()) < end)
        continue;
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  check(MPIX_Load_balance() == MPI_SUCCESS, "MPIX_Load_balance");
  const int own = worker_now();
  std::vector<int> all(static_cast<std::size_t>(size));
  MPI_Allgather(&own, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
  for (int worker = 0; worker < workers; ++worker) {
    int busy = 0;
    for (int each = 0; each < size / 2; ++each)
      busy += all[static_cast<std::size_t>(each)] == worker;
    check(busy > 0, "each worker has some of those who work");
  }
}

static void refuse(const std::string& what) {
  std::FILE* file = nullptr;
  void* memory = nullptr;
  int fd = -1;
  pthread_key_t key;
  pthread_key_create(&key, nullptr);
  MPI_Barrier(MPI_COMM_WORLD);
  if (what == "file") tied([&] { file = std::tmpfile(); }, [&] { std::fclose(file); }, "it has a file open");
  if (what == "descriptor")
    tied([&] { fd = open("/etc/passwd", O_RDONLY); }, [&] { close(fd); }, "has a file open (/etc/passwd)");
  if (what == "mapping")
    tied(
        [&] {
          fd = open("/etc/passwd", O_RDONLY);
          memory = mmap(nullptr, 100, PROT_READ, MAP_PRIVATE, fd, 0);
          close(fd);
        },
        [&] { munmap(memory, 100); }, "it has mapped a file (/etc/passwd)");
  if (what == "specific")
    tied([&] { pthread_setspecific(key, &key); }, [&] { pthread_setspecific(key, nullptr); },
         "it has thread-specific data");
  if (what == "locale")
    tied([] { std::setlocale(LC_ALL, "C.UTF-8"); }, [] { std::setlocale(LC_ALL, "C"); },
         "its process has another locale than C");
  if (what == "thread") tied([] { std::thread([] {}).join(); }, {}, "it has made a thread");
  if (what == "library")
    tied([] { check(dlopen("libresolv.so.2", RTLD_NOW) != nullptr, "dlopen"); }, {},
         "a library has been loaded into its process since the start");
  if (what == "segment")
    tied(
        [] {
          const int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
          shmat(segment, nullptr, 0);
          shmctl(segment, IPC_RMID, nullptr);
        },
        {}, "it has attached System V memory");
  static char buffer[1000];
  if (what == "buffer")
    tied([] { std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer); },
         [] { std::setvbuf(stdout, nullptr, _IONBF, 0); }, "standard input or output a buffer");
  if (what == "wide") tied([] { std::fwide(stdin, 1); }, {}, "reads or writes wide characters");
  if (what == "memory file")
    tied([&] { fd = memfd_create("own", 0); }, [&] { close(fd); }, "has a file open (/memfd:own");
  if (what == "event")
    tied([&] { fd = eventfd(0, 0); }, [&] { close(fd); }, "has a file open (anon_inode:[eventfd])");
  if (what == "protected") {
    memory = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(memory, 7, 8192);
    tied([&] { mprotect(memory, 4096, PROT_NONE); }, [&] { mprotect(memory, 4096, PROT_READ | PROT_WRITE); },
         "it has written to memory that may not be read now");
    check(*static_cast<char*>(memory) == 7, "what was there");
  }
  if (what == "semaphore")
    tied(
        [] {
          const std::string name = "/isthmus-test-" + std::to_string(getpid());
          check(sem_open(name.c_str(), O_CREAT, 0600, 1) != SEM_FAILED, "sem_open");
          sem_unlink(name.c_str());
        },
        {}, "it has a semaphore with a name");
  if (what == "fork") tied([] { pthread_atfork(nullptr, nullptr, nullptr); }, {}, "told of forks");
  if (what == "at exit") tied([] { on_exit([](int, void*) {}, nullptr); }, {}, "a call at its process's end");
  if (what == "keeper") {
    const auto keep = reinterpret_cast<int* (*)()>(dlsym(RTLD_DEFAULT, "keep"));
    const auto forget = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "forget"));
    check(keep && forget, "the library");
    tied([&] { check(*keep() == 42, "what it keeps"); }, [&] { forget(); },
         "a library keeps memory of ranks of its process");
  }
  if (what == "lazy") {
    // All go, also who has had the dynamic linker look up what this library needs.
    check(MPIX_Migrate_all((worker_now() + 1) % workers) == MPI_SUCCESS, "MPIX_Migrate_all");
    MPI_Barrier(MPI_COMM_WORLD);
    const auto keep = reinterpret_cast<int* (*)()>(dlsym(RTLD_DEFAULT, "keep"));
    check(keep && *keep() == 42, "a function of a library that is called for the first time");
  }
  if (what == "cuda")
    tied(
        [] {
          void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
          const auto init = driver ? reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit")) : nullptr;
          check(init != nullptr && init(0) == 0, "cuInit");
        },
        {}, "it uses CUDA");
  if (what == "traced") tied([] {}, {}, "it is traced");
  if (what == "neighbour") {
    if (rank == 0) check(dlopen("libresolv.so.2", RTLD_NOW) != nullptr, "dlopen");
    MPI_Barrier(MPI_COMM_WORLD);
    tied([] {}, {},
         rank == 1 ? "has been loaded into its process since the start" : "could not take it over");
  }
  if (what == "balance") balance();
  if (what == "worker")
    check(class_of(MPIX_Migrate_all(rank == 1 ? workers : worker_now())) ==
              (rank == 1 ? MPI_ERR_ARG : MPI_SUCCESS),
          "no such worker");
  if (what == "alone") {
    const int far = (worker_now() + workers / 2) % workers;
    check(class_of(MPIX_Migrate(far)) == MPI_ERR_ARG, "MPIX_Migrate to another process");
  }
}

/// Needs more stack than there is.
static int deep(int depth) {
  volatile char frame[1000];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? 0 : deep(depth - 1) + frame[0];
}

/// Ranks go round, and do not end.
static void go_round() {
  for (int step = 0;; ++step) {
    MPIX_Migrate_all((worker_now() + rank % 3) % workers);
    if (rank == 0 && step == 10) {
      std::puts("they go");
      std::fflush(stdout);
    }
  }
}

/// Rank 1 ends so, in the process of others.
static void end(const std::string& what) {
  go();
  if (what == "never") go_round();
  if (what == "stuck" && rank == 1) MPI_Recv(nullptr, 0, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) {
    std::printf("rank 1 ends in %d\n", static_cast<int>(getpid()));
    std::fflush(stdout);
    if (what == "exit") std::exit(7);
    if (what == "segv") raise(SIGSEGV);
    if (what == "kill") raise(SIGKILL);
    if (what == "stack") std::printf("%d\n", deep(1 << 20));
    if (what == "abort") MPI_Abort(MPI_COMM_WORLD, 42);
  }
  if (what != "late") MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  worker_now();
  const std::string what = argv[argc - 1], how = argc > 2 ? argv[argc - 2] : "";
  if (how == "end")
    end(what);
  else
    refuse(what);
  int all = 0;
  MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d ranks, %d failures\n", size, all);
  MPI_Finalize();
  if (how == "end" && what == "late" && rank == 1) return 9;
  return failures != 0;
}
