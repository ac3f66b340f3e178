// Ranks go on in other processes of their host, and everything that they have goes along: globals, statics,
// thread-local variables, stack, heap, objects of C++, exceptions, communicators, datatypes, attributes,
// requests, and messages that are under way. The last argument says what is tried, the one before how often.
#include <getopt.h>
#include <mpi-ext.h>
#include <mpi.h>
#include <pwd.h>
#include <setjmp.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

static int rank, size, workers, failures;
static int global = 1;
static int zero[5000];
thread_local int of_thread = 1;
thread_local std::string text_of_thread = "a text that is too long for the object itself";
static std::map<int, std::string> names{{1, "one"}, {2, "two"}};
static const int* const points_to_global = &global;

struct Base {
  virtual ~Base() = default;
  virtual int value() const = 0;
};
struct Derived final : Base {
  explicit Derived(int v) : held(v) {}
  int value() const override { return held; }
  int held;
};
/// Says where it has ended.
struct Farewell {
  ~Farewell() {
    if (names.size() != 3 || names.at(3) != "three") {
      std::printf("rank %d has lost its map\n", rank);
      std::fflush(stdout);
      _exit(9);
    }
  }
} farewell;

static void check(bool holds, const char* what, int step = -1) {
  if (holds) return;
  ++failures;
  std::printf("rank %d, step %d, process %d: %s does not hold\n", rank, step, static_cast<int>(getpid()),
              what);
}

static int worker_now() {
  int worker = -1;
  MPIX_Get_worker(&worker, &workers);
  return worker;
}

static int counter() {
  static int calls = 0;
  return ++calls;
}

/// How many ranks there are in the process of each rank, by the processes' ids.
static std::vector<long> processes() {
  long own = getpid();
  std::vector<long> all(static_cast<std::size_t>(size));
  MPI_Allgather(&own, 1, MPI_LONG, all.data(), 1, MPI_LONG, MPI_COMM_WORLD);
  return all;
}

static int throw_over(int step, int to) {
  try {
    try {
      throw std::runtime_error(std::to_string(step));
    } catch (const std::runtime_error&) {
      check(MPIX_Migrate_all(to) == MPI_SUCCESS, "MPIX_Migrate_all in a handler", step);
      throw;
    }
  } catch (const std::exception& error) {
    return std::atoi(error.what());
  }
}

static int copy_attribute(MPI_Comm, int, void*, void* value, void* out, int* flag) {
  *static_cast<void**>(out) = value;
  *flag = 1;
  return MPI_SUCCESS;
}

/// One option of `words` after the other, each in another process: the C library has one parser for all ranks
/// of a process.
static void parse_options(int count, char** words) {
  optind = 1;
  std::string seen;
  int step = 0;
  for (int option; (option = getopt(count, words, "abcdn:")) != -1; ++step) {
    seen += static_cast<char>(option);
    if (option == 'n') seen += optarg;
    check(MPIX_Migrate_all((worker_now() + 1 + rank % 2) % workers) == MPI_SUCCESS, "MPIX_Migrate_all", step);
  }
  check(seen == "abn42cda", "the options");
  check(optind == count - 2, "the place after the options");
}

/// Where rank `each` goes in step `step`: another pattern in each.
static int destination(int each, int step) {
  return (each * (1 + step % 3) + step) % workers;
}

static long added = 0;

static void add_all(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i)
    static_cast<long*>(inout)[i] += static_cast<const long*>(in)[i] + added;
}

/// Collectives, matched messages, buffered sends and an operation of the program's own that begin in one
/// process and end in another.
static void go_with_calls_under_way(int steps) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  std::vector<char> buffer(100'000 + MPI_BSEND_OVERHEAD);
  MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size()));
  MPI_Op sum;
  MPI_Op_create(add_all, 1, &sum);
  std::vector<long> kept_in(5000), kept_out(5000);
  MPI_Request kept;
  MPI_Allreduce_init(kept_in.data(), kept_out.data(), 5000, MPI_LONG, sum, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &kept);
  for (int step = 0; step < steps; ++step) {
    const int root = step % size, to = destination(rank, step);
    std::vector<long> in(3000, rank + step), out(3000), wide(200'000, rank == root ? step : -1);
    std::vector<int> all(static_cast<std::size_t>(size) * 700);
    const std::vector<int> own(700, rank * 100 + step);
    std::fill(kept_in.begin(), kept_in.end(), rank);
    MPI_Request requests[6];
    MPI_Comm duplicate;
    MPI_Message matched;
    int word = -1;
    MPI_Bsend(&step, 1, MPI_INT, next, 11, MPI_COMM_WORLD);
    MPI_Bsend(&rank, 1, MPI_INT, next, 12, MPI_COMM_WORLD);
    MPI_Mprobe(before, 11, MPI_COMM_WORLD, &matched, MPI_STATUS_IGNORE);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(in.data(), out.data(), 3000, MPI_LONG, sum, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibcast(wide.data(), 200'000, MPI_LONG, root, MPI_COMM_WORLD, &requests[2]);
    MPI_Iallgather(own.data(), 700, MPI_INT, all.data(), 700, MPI_INT, MPI_COMM_WORLD, &requests[3]);
    MPI_Comm_idup(MPI_COMM_WORLD, &duplicate, &requests[4]);
    MPI_Start(&kept);
    requests[5] = kept;
    check(MPIX_Migrate_all(to) == MPI_SUCCESS, "MPIX_Migrate_all", step);
    MPI_Mrecv(&word, 1, MPI_INT, &matched, MPI_STATUS_IGNORE);
    check(word == step, "the matched message", step);
    MPI_Recv(&word, 1, MPI_INT, before, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(word == before, "the buffered message", step);
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    const long ranks = static_cast<long>(size) * (size - 1) / 2;
    check(out[0] == ranks + size * step && out[2999] == out[0], "the sum of one's own", step);
    check(kept_out[0] == ranks && kept_out[4999] == ranks, "the persistent sum", step);
    check(wide[0] == step && wide[199'999] == step, "what is broadcast", step);
    for (int each = 0; each < size; ++each)
      check(all[static_cast<std::size_t>(each) * 700 + 699] == each * 100 + step, "what is gathered", step);
    std::vector<int> from(all.size()), parts(all.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      parts[i] = rank * size + static_cast<int>(i / 700);
    MPI_Alltoall(parts.data(), 700, MPI_INT, from.data(), 700, MPI_INT, duplicate);
    for (int each = 0; each < size; ++each)
      check(from[static_cast<std::size_t>(each) * 700] == each * size + rank, "what all send all", step);
    MPI_Bcast(wide.data(), 200'000, MPI_LONG, (root + 1) % size, duplicate);
    MPI_Comm_free(&duplicate);
  }
  MPI_Request_free(&kept);
  MPI_Op_free(&sum);
  void* detached = nullptr;
  int bytes = 0;
  MPI_Buffer_detach(&detached, &bytes);
  check(detached == buffer.data(), "the buffer");
  names[3] = "three";
}

/// Messages of all ways wait for their receives while their senders and receivers go on elsewhere.
static void go_with_messages_waiting(int steps) {
  constexpr int many = 40, long_count = 75'000;
  MPI_Datatype column;
  MPI_Type_vector(long_count, 1, 2, MPI_INT, &column);
  MPI_Type_commit(&column);
  const auto others = static_cast<std::size_t>(size - 1);
  for (int step = 0; step < steps; ++step) {
    std::vector<MPI_Request> sends, taken_back;
    std::vector<int> numbers(1024 * many), longer(long_count, rank * 1000 + step), pairs(2 * long_count, -1);
    for (int i = 0; i < many; ++i)
      std::fill_n(numbers.begin() + 1024 * i, 1024, i);
    for (int i = 0; i < long_count; ++i)
      pairs[static_cast<std::size_t>(2 * i)] = rank * 1000 + step + i;
    for (int k = 1; k < size; ++k) {
      const int to = (rank + k) % size;
      const auto send = [&](auto function, const void* from, int count, MPI_Datatype type, int tag) {
        function(from, count, type, to, tag, MPI_COMM_WORLD, &sends.emplace_back());
      };
      send(MPI_Isend, longer.data(), long_count, MPI_INT, 5);
      for (int i = 0; i < many; ++i)
        send(MPI_Isend, &numbers[static_cast<std::size_t>(1024 * i)], 1024, MPI_INT, 5);
      send(MPI_Issend, &step, 1, MPI_INT, 3);
      send(MPI_Issend, longer.data(), long_count, MPI_INT, 4);
      send(MPI_Isend, pairs.data(), 1, column, 6);
      MPI_Issend(&step, 1, MPI_INT, to, 7, MPI_COMM_WORLD, &taken_back.emplace_back());
      MPI_Issend(longer.data(), long_count, MPI_INT, to, 7, MPI_COMM_WORLD, &taken_back.emplace_back());
    }
    for (int moves = 0; moves <= step % 3; ++moves)
      check(MPIX_Migrate_all(destination(rank, step + moves)) == MPI_SUCCESS, "MPIX_Migrate_all", step);
    if (step % 2 == 0)
      for (MPI_Request& each : taken_back)
        MPI_Cancel(&each);
    for (std::size_t k = 0; k < others; ++k) {
      const int from = (rank + static_cast<int>(k) + 1) % size;
      std::vector<int> in(2 * long_count, -1);
      MPI_Status status;
      int count = 0, word = -1;
      // The first that was sent is the first to come, however it went.
      MPI_Recv(in.data(), long_count, MPI_INT, from, 5, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_INT, &count);
      check(count == long_count && in[long_count - 1] == from * 1000 + step, "the long message", step);
      for (int i = 0; i < many; ++i) {
        MPI_Recv(in.data(), 1024, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(in[0] == i && in[1023] == i, "the order of messages", step);
      }
      MPI_Recv(&word, 1, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      check(word == step, "the synchronous message", step);
      MPI_Recv(in.data(), long_count, MPI_INT, from, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      check(in[0] == from * 1000 + step, "the long synchronous message", step);
      MPI_Recv(in.data(), 1, column, from, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < long_count; i += 97)
        check(in[static_cast<std::size_t>(2 * i)] == from * 1000 + step + i, "the column", step);
      if (step % 2 == 1) {
        MPI_Recv(&word, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(in.data(), long_count, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(word == step && in[0] == from * 1000 + step, "what might have been taken back", step);
      }
    }
    MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
    std::vector<MPI_Status> ends(taken_back.size());
    MPI_Waitall(static_cast<int>(taken_back.size()), taken_back.data(), ends.data());
    MPI_Barrier(MPI_COMM_WORLD);
    // A long message that its receiver has brought in is there, and stays.
    for (std::size_t i = 0; step % 2 == 0 && i < ends.size(); ++i) {
      int is_cancelled = 0;
      MPI_Test_cancelled(&ends[i], &is_cancelled);
      check(is_cancelled != 0 || i % 2 == 1, "that a message is taken back", step);
    }
    int is_there = 1;
    for (std::vector<int> in(long_count); is_there != 0;) {
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &is_there, &status);
      if (is_there != 0)
        MPI_Recv(in.data(), long_count, MPI_INT, status.MPI_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Type_free(&column);
  names[3] = "three";
}

static void go_about(int steps) {
  MPI_Comm half, ring;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  const int dimension = size, periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &dimension, &periodic, 0, &ring);
  MPI_Datatype column;
  MPI_Type_vector(50, 1, 2, MPI_INT, &column);
  MPI_Type_commit(&column);
  int key = 0, kept = 4711;
  MPI_Comm_create_keyval(copy_attribute, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
  MPI_Comm_set_attr(half, key, &kept);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  int persistent_out = 0, persistent_in = -1;
  MPI_Request persistent[2];
  MPI_Send_init(&persistent_out, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &persistent[0]);
  MPI_Recv_init(&persistent_in, 1, MPI_INT, before, 7, MPI_COMM_WORLD, &persistent[1]);
  int array[1000];
  int* into_stack = &array[500];
  std::vector<int> heap(60000);
  std::map<int, std::unique_ptr<Base>> objects;
  std::function<int(int)> closure = [&heap, k = std::string(100, 'k')](int i) {
    return heap[static_cast<std::size_t>(i)] + static_cast<int>(k.size());
  };
  std::ostringstream stream;
  std::size_t seen_elsewhere = 0;
  const long first_process = getpid();
  for (int step = 0; step < steps; ++step) {
    heap.resize(step % 8 == 3 ? 1'000'000 : 60'000);
    std::vector<int> far(heap.size()), column_of(100, -1);
    int early = -1;
    MPI_Request requests[5];
    for (std::size_t i = 0; i < heap.size(); ++i)
      heap[i] = rank * 1000 + step;
    std::iota(array, array + 1000, step);
    objects[step] = std::make_unique<Derived>(step);
    stream << step << ' ';
    MPI_Irecv(far.data(), static_cast<int>(far.size()), MPI_INT, before, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(column_of.data(), 1, column, before, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(heap.data(), static_cast<int>(heap.size()), MPI_INT, next, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(heap.data(), 50, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Isend(&step, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[4]);
    persistent_out = step;
    MPI_Startall(2, persistent);
    errno = step;
    of_thread += 1;
    global += 1;
    zero[step % 5000] = step;
    const int to = destination(rank, step);
    check(MPIX_Migrate_all(to) == MPI_SUCCESS, "MPIX_Migrate_all", step);
    check(errno == step || step == 0, "errno", step);  // the first call makes what it needs
    check(worker_now() == to, "MPIX_Get_worker", step);
    MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
    MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
    MPI_Recv(&early, 1, MPI_INT, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(early == step, "the message that nobody awaited", step);
    check(persistent_in == step, "the persistent receive", step);
    bool is_right = true;
    for (const int each : far)
      is_right = is_right && each == before * 1000 + step;
    check(is_right, "the long message", step);
    for (int i = 0; i < 50; ++i)
      check(column_of[2 * i] == before * 1000 + step && column_of[2 * i + 1] == -1, "the column", step);
    check(*into_stack == step + 500, "the pointer into the stack", step);
    check(closure(7) == rank * 1000 + step + 100, "the closure", step);
    check(objects[step]->value() == step && objects[step / 2]->value() == step / 2, "the objects", step);
    check(of_thread == step + 2 && global == step + 2 && *points_to_global == step + 2, "variables", step);
    check(zero[step % 5000] == step, "the large array", step);
    check(counter() == step + 1, "the static of a function", step);
    check(text_of_thread.starts_with("a text that"), "the thread's text", step);
    int sum = 0, members = 0, found = 0;
    void* value = nullptr;
    MPI_Comm_size(half, &members);
    MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, half);
    check(sum == members * step, "the sum", step);
    std::vector<double> many(3000, rank), sums(3000);
    MPI_Allreduce(many.data(), sums.data(), 3000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check(sums[2999] == size * (size - 1) / 2.0, "the long sum", step);
    MPI_Request lane;
    int least = rank, most = -1;
    MPI_Iallreduce(&least, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &lane);
    MPI_Wait(&lane, MPI_STATUS_IGNORE);
    check(most == size - 1, "the largest", step);
    MPI_Comm_get_attr(half, key, &value, &found);
    check(found != 0 && value == &kept, "the attribute", step);
    int source = -1, target = -1;
    MPI_Cart_shift(ring, 0, 1, &source, &target);
    check(source == before && target == next, "the ring", step);
    if (step % 5 == 0) {
      check(throw_over(step, destination(rank, step + 1)) == step, "the exception in flight", step);
      jmp_buf place;
      volatile int back = 0;
      if (setjmp(place) == 0) {
        MPIX_Migrate_all(destination(rank, step + 2));
        back = step;
        longjmp(place, 1);
      }
      check(back == step, "the long jump", step);
      setenv("TEST_OWN", std::to_string(rank * 1000 + step).c_str(), 1);
      MPIX_Migrate_all(destination(rank, step));
      check(std::atoi(std::getenv("TEST_OWN")) == rank * 1000 + step, "the environment", step);
      MPI_Comm duplicate;
      MPI_Comm_dup(half, &duplicate);
      MPI_Barrier(duplicate);
      MPI_Comm_free(&duplicate);
    }
    // The first of a process to ask has the C library make what all have of it.
    if (rank == step % size) {
      const std::time_t time = 1'000'000'000;
      std::tm parts{};
      localtime_r(&time, &parts);
      char text[100] = "";
      check(std::strftime(text, sizeof text, "%Z %Y", &parts) > 0, "the time", step);
      static_cast<void>(getpwuid(getuid()));
    }
    seen_elsewhere += getpid() != first_process;
  }
  names[3] = "three";
  check(names.at(1) == "one", "the map");
  check(stream.str().size() > static_cast<std::size_t>(steps), "the stream");
  MPI_Request_free(&persistent[0]);
  MPI_Request_free(&persistent[1]);
  MPI_Comm_free_keyval(&key);
  MPI_Type_free(&column);
  MPI_Comm_free(&half);
  MPI_Comm_free(&ring);
  unsigned long elsewhere = seen_elsewhere, all = 0;
  MPI_Allreduce(&elsewhere, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
  const std::vector<long> where = processes();
  bool are_several = false;
  for (const long each : where)
    are_several = are_several || each != where[0];
  check(all > 0 || (!are_several && workers == 1), "somebody has been in another process");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  worker_now();
  const std::string what = argv[argc - 1];
  const int steps = argc > 2 ? std::atoi(argv[argc - 2]) : 30;
  if (what == "once") {
    const long from = getpid();
    check(MPIX_Migrate_all((worker_now() + 1) % workers) == MPI_SUCCESS, "MPIX_Migrate_all");
    std::cout << "rank " + std::to_string(rank) + " was in " + std::to_string(from) + " and is in " +
                     std::to_string(getpid()) + "\n";
    names[3] = "three";
  }
  if (what == "options") {
    parse_options(argc, argv);
    names[3] = "three";
  }
  if (what == "calls") go_with_calls_under_way(steps);
  if (what == "waiting") go_with_messages_waiting(steps);
  if (what == "about") go_about(steps);
  int all = 0;
  MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d ranks, %d workers, %d failures\n", size, workers, all);
  MPI_Finalize();
  return failures != 0;
}
