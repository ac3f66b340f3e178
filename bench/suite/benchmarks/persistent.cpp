// Back and forth with requests that are made once: latency_persistent, partitioned_latency.

#include <array>

#include "suite/benchmarks/benchmark.hpp"
#include "suite/benchmarks/pair.hpp"

namespace isthmus::bench {
namespace {

// A send and a receive request, which the derived class has made.
class Prepared {
 public:
  Prepared(const Job& job, std::size_t bytes)
      : job_(job), pair_(pair_of(job)), out_(job.buffer(bytes)), in_(job.buffer(bytes)) {}
  ~Prepared() {
    for (MPI_Request* request : {&sending_, &receiving_})
      if (*request != MPI_REQUEST_NULL) MPI_Request_free(request);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

 protected:
  static void finish(MPI_Request& request) { call(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait"); }

  const Job& job_;
  Pair pair_;
  std::unique_ptr<Buffer> out_;
  std::unique_ptr<Buffer> in_;
  MPI_Request sending_ = MPI_REQUEST_NULL;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
};

class PersistentPingPong : public Prepared {
 public:
  PersistentPingPong(const Job& job, std::size_t bytes)
      : Prepared(job, bytes), what_(job.options().layout, job.element(), bytes) {
    call(MPI_Send_init(out_->data(), what_.count(), what_.type(), pair_.peer, message_tag, MPI_COMM_WORLD,
                       &sending_),
         "MPI_Send_init");
    call(MPI_Recv_init(in_->data(), what_.count(), what_.type(), pair_.peer, message_tag, MPI_COMM_WORLD,
                       &receiving_),
         "MPI_Recv_init");
  }
  void describe(Meaning& meaning) const { add_carried(job_, what_, meaning); }
  void exchange() {
    for (MPI_Request* request :
         pair_.first ? std::array{&sending_, &receiving_} : std::array{&receiving_, &sending_}) {
      call(MPI_Start(request), "MPI_Start");
      finish(*request);
    }
  }
  std::string fault(unsigned round) {
    out_->fill(static_cast<unsigned>(job_.rank()), round);
    in_->clear();
    exchange();
    return what_.fault(*in_, 0, static_cast<unsigned>(pair_.peer), round);
  }

 private:
  MessageType what_;
};

#if MPI_VERSION >= 4
class PartitionedPingPong : public Prepared {
 public:
  PartitionedPingPong(const Job& job, std::size_t bytes)
      : Prepared(job, bytes), partitions_(job.options().partitions) {
    const auto count = static_cast<MPI_Count>(bytes / static_cast<std::size_t>(partitions_));
    call(MPI_Psend_init(out_->data(), partitions_, count, MPI_BYTE, pair_.peer, message_tag, MPI_COMM_WORLD,
                        MPI_INFO_NULL, &sending_),
         "MPI_Psend_init");
    call(MPI_Precv_init(in_->data(), partitions_, count, MPI_BYTE, pair_.peer, message_tag, MPI_COMM_WORLD,
                        MPI_INFO_NULL, &receiving_),
         "MPI_Precv_init");
  }
  void describe(Meaning& /*meaning*/) const {}
  void exchange() {
    if (pair_.first) give();
    call(MPI_Start(&receiving_), "MPI_Start");
    finish(receiving_);
    if (!pair_.first) give();
  }
  std::string fault(unsigned round) {
    out_->fill(static_cast<unsigned>(job_.rank()), round);
    in_->clear();
    exchange();
    return in_->fault(static_cast<unsigned>(pair_.peer), round);
  }

 private:
  void give() {
    call(MPI_Start(&sending_), "MPI_Start");
    for (int i = 0; i < partitions_; ++i)
      call(MPI_Pready(i, sending_), "MPI_Pready");
    finish(sending_);
  }

  int partitions_;
};
#endif

template <class PingPong>
void latency_of(const Job& job, std::size_t bytes) {
  PingPong pair(job, bytes);
  check(job, pair, 1);
  Meaning meaning{.share = 0.5};
  pair.describe(meaning);
  job.report(bytes, job.measure_loop([&pair] { pair.exchange(); }), meaning);
  check(job, pair, 2);
}

void partitioned_latency(const Job& job, std::size_t bytes) {
#if MPI_VERSION >= 4
  if (bytes % static_cast<std::size_t>(job.options().partitions) == 0)
    latency_of<PartitionedPingPong>(job, bytes);
#else
  (void)job, (void)bytes;
  fail_without("partitioned messages", "4.0");
#endif
}

}  // namespace

std::vector<Benchmark> persistent_benchmarks() {
  const unsigned features = Feature::sizes | Feature::placement;
  return {
      {"latency_persistent",
       "point-to-point",
       "latency with MPI_Send_init, MPI_Recv_init and MPI_Start",
       Ranks::two,
       features | Feature::types | Feature::layouts,
       1,
       latency_of<PersistentPingPong>,
       {}},
      {"partitioned_latency",
       "point-to-point",
       "latency with MPI_Psend_init and MPI_Pready, for sizes that the partitions divide",
       Ranks::two,
       features | Feature::partitions,
       1,
       partitioned_latency,
       {}},
  };
}

}  // namespace isthmus::bench
