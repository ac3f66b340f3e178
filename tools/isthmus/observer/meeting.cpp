#include "observer/meeting.hpp"

#include <mpi-ext.h>
#include <mpi.h>

#include <algorithm>

#include "observer/agree.hpp"
#include "observer/observer.hpp"

namespace isthmus::observer {
namespace {

/// The calls in the order of a stream of the MPI library that the program runs with, if it has them.
struct Enqueued {
  decltype(&MPIX_Info_set_hex) set_hex = nullptr;
  decltype(&MPIX_Stream_create) stream_create = nullptr;
  decltype(&MPIX_Stream_free) stream_free = nullptr;
  decltype(&MPIX_Stream_comm_create) comm_create = nullptr;
  decltype(&MPIX_Allreduce_enqueue) allreduce = nullptr;

  [[nodiscard]] bool find() {
    return find_in_program(set_hex, "PMPIX_Info_set_hex") &&
           find_in_program(stream_create, "PMPIX_Stream_create") &&
           find_in_program(stream_free, "PMPIX_Stream_free") &&
           find_in_program(comm_create, "PMPIX_Stream_comm_create") &&
           find_in_program(allreduce, "PMPIX_Allreduce_enqueue");
  }
};

/// What fails is told by its code while this lives.
class ErrorsReturn {
 public:
  explicit ErrorsReturn(MPI_Comm comm) : comm_(comm) {
    PMPI_Comm_get_errhandler(comm_, &before_);
    PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;
  ~ErrorsReturn() {
    PMPI_Comm_set_errhandler(comm_, before_);
    PMPI_Errhandler_free(&before_);
  }

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

/// All processes, in the order of a stream of the driver's. Collective.
class Members {
 public:
  Members(const Driver& driver, const Enqueued& calls) : driver_(driver), calls_(calls) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "type", "cudaStream_t");
    bool works = driver_.stream_create(&stream_, 1) == 0 &&
                 calls_.set_hex(info, "value", &stream_, static_cast<int>(sizeof(Stream))) == MPI_SUCCESS &&
                 calls_.stream_create(info, &of_mpi_) == MPI_SUCCESS;
    PMPI_Info_free(&info);
    if (!all_agree(works)) return;
    works = calls_.comm_create(MPI_COMM_WORLD, of_mpi_, &comm_) == MPI_SUCCESS;
    if (works) PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    work_ = all_agree(works);
  }
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  ~Members() {
    // MPI frees no stream that something is under way on, and what has passed the last event may be that
    // still.
    if (stream_) driver_.stream_wait(stream_);
    if (comm_ != MPI_COMM_NULL) PMPI_Comm_free(&comm_);
    if (of_mpi_ != MPIX_STREAM_NULL) calls_.stream_free(&of_mpi_);
    if (stream_) driver_.stream_destroy(stream_);
  }
  [[nodiscard]] bool work() const { return work_; }
  [[nodiscard]] Stream stream() const { return stream_; }
  /// In the order of the stream.
  [[nodiscard]] bool meet(Address memory) const {
    return calls_.allreduce(MPI_IN_PLACE, reinterpret_cast<void*>(memory), 2, MPI_INT, MPI_MAX, comm_) ==
           MPI_SUCCESS;
  }

 private:
  const Driver& driver_;
  const Enqueued& calls_;
  Stream stream_ = nullptr;
  MPIX_Stream of_mpi_ = MPIX_STREAM_NULL;
  MPI_Comm comm_ = MPI_COMM_NULL;
  bool work_ = false;
};

}  // namespace

double time_meeting(const Driver& driver, Gate& gate, Address memory, double piece, std::string& why_not) {
  constexpr int meetings = 20, launches = 5;
  why_not = "this MPI has no calls that are enqueued on streams (MPIX_Allreduce_enqueue)";
  Enqueued calls;
  if (!all_agree(calls.find())) return 0;
  const ErrorsReturn world(MPI_COMM_WORLD), self(MPI_COMM_SELF);
  why_not = "processes do not meet by MPIX_Allreduce_enqueue here";
  const Members members(driver, calls);
  if (!members.work()) return 0;
  double least = -1;
  {
    bool works = true;
    const Captured captured(driver, members.stream(), [&] {
      for (int i = 0; i < meetings; ++i)
        works = members.meet(memory) && works;
    });
    if (!all_agree(works && captured.works())) return 0;
    // The first launch brings the graph to the GPU, and whoever comes last is waited for.
    for (int launch = 0; launch < launches; ++launch) {
      PMPI_Barrier(MPI_COMM_WORLD);
      const double seconds = gate.time(members.stream(), [&] { captured.launch(members.stream()); });
      works = works && seconds >= 0;
      if (launch > 0 && (least < 0 || seconds < least)) least = seconds;
    }
    if (!all_agree(works)) return 0;
  }
  why_not.clear();
  return std::max(0.0, least / meetings - piece);
}

}  // namespace isthmus::observer
