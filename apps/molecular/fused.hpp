// Time steps in one kernel, whose blocks compute, send, wait for what arrives and go on
// (<isthmus/fuse.cuh>): for nvcc and for the host's twin.
#pragma once

#include "common/gpu/fused.hpp"
#include "work.hpp"

namespace molecular {

// A time step is six exchanges, which are the steps of the fusion: of atoms along x, y and z, then of slopes.
constexpr unsigned exchange_count = 6;

// In this order: who sends comes before who waits for others.
//   before   the first exchange: atoms move; the fourth: densities
//   after    the third: each cell's atoms; the sixth: forces
enum Role : unsigned { before, sends, arrivals, after, role_count };

struct FusedWork {
  static constexpr const char* kernel = "molecular_fused";

  isthmus::device::DevicePort port;
  isthmus::device::Fusion fusion;
  Grid grid;
  Cell* cells[2];  // in turn: before and after a move
  Sums* sums;
  double* slopes;
  long* problems;
  double step;
  double shift[3][side_count];
  apps::gpu::KernelMail mail[exchange_count];  // a route to each side
};

// The tasks of one exchange: those of the addresses that this process sees.
class FusedExchange {
 public:
  ISTHMUS_DEVICE_FUNCTION FusedExchange(const FusedWork& work, unsigned step)
      : work_(work),
        number_(step % exchange_count),
        turn_(step / exchange_count % 2),
        now_(isthmus::device::see(work.cells[turn_])),
        sorted_(isthmus::device::see(work.cells[1 - turn_])),
        sums_(isthmus::device::see(work.sums)),
        slopes_(isthmus::device::see(work.slopes)),
        problems_(isthmus::device::see(work.problems)) {}

  ISTHMUS_DEVICE_FUNCTION bool do_task(const isthmus::device::Task& task,
                                       const isthmus::device::Crew& crew) const {
    const unsigned tasks = work_.fusion.tasks[task.role];
    // Nothing comes before the second exchange along an axis but what has arrived by the one before: of that,
    // some goes on.
    const bool is_first = number_ % 3 == 0;
    switch (task.role) {
      case before:
        return !is_first || (crew.wait_for_last(after) && begin(tasks, task.index));
      case sends:
      case arrivals:
        // There are as many as the longest message has parts.
        if (task.index >= work_.mail[number_].tasks()) return true;
        if (!(is_first ? crew.wait_for(before) : crew.wait_for_last(arrivals))) return false;
        return task.role == sends ? send(task.index) : receive(task.index);
      default:
        return number_ % 3 != 2 ||
               (crew.wait_for(sends) && crew.wait_for(arrivals) && finish(tasks, task.index));
    }
  }

 private:
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION bool is_of_atoms() const { return number_ < 3; }
  [[nodiscard]] ISTHMUS_DEVICE_FUNCTION Slabs slabs() const {
    return {work_.grid, static_cast<int>(number_ % 3), is_of_atoms() ? depth : 1};
  }
  // Each true.
  ISTHMUS_DEVICE_FUNCTION bool begin(unsigned tasks, unsigned task) const {
    if (is_of_atoms())
      apps::gpu::do_part(MoveWork{work_.grid, now_, sums_, work_.step, problems_}, tasks, task);
    else
      apps::gpu::do_part(DensityWork{work_.grid, sorted_, sums_, slopes_}, tasks, task);
    return true;
  }
  ISTHMUS_DEVICE_FUNCTION bool finish(unsigned tasks, unsigned task) const {
    if (is_of_atoms())
      apps::gpu::do_part(SortWork{work_.grid, now_, sorted_, problems_}, tasks, task);
    else
      apps::gpu::do_part(ForceWork{work_.grid, sorted_, sums_, slopes_, work_.step}, tasks, task);
    return true;
  }

  // Of the points of a packing or unpacking `work`, those of a part of one side's cells.
  template <class Work>
  ISTHMUS_DEVICE_FUNCTION void do_cells(const Work& work, int side, apps::gpu::Run cells) const {
    const isthmus::device::ByBlock by;
    const long first = side * work.slabs.cells() * capacity;
    for (long i = cells.begin * capacity + by.index(); i < cells.end * capacity; i += by.size())
      work.point(first + i);
  }
  ISTHMUS_DEVICE_FUNCTION bool send(unsigned task) const {
    const apps::gpu::KernelMail& mail = work_.mail[number_];
    unsigned part = 0;
    const int side = mail.route_of(task, part);
    const apps::gpu::Run cells = apps::gpu::run_of(slabs().cells(), mail.parts, part);
    char* const to = mail.outgoing(work_.port, turn_, side);
    unsigned long long each = sizeof(Cell);
    if (is_of_atoms()) {
      PackAtomsWork pack{slabs(), now_, {}, {}};
      pack.buffers[side] = reinterpret_cast<Cell*>(to);
      pack.shift[side] = work_.shift[number_][side];
      do_cells(pack, side, cells);
    } else {
      PackSlopesWork pack{slabs(), slopes_, {}};
      pack.buffers[side] = reinterpret_cast<double*>(to);
      do_cells(pack, side, cells);
      each = capacity * sizeof(double);
    }
    return mail.send(work_.port, turn_, side, part, static_cast<unsigned long long>(cells.begin) * each,
                     static_cast<unsigned long long>(cells.end) * each);
  }
  ISTHMUS_DEVICE_FUNCTION bool receive(unsigned task) const {
    const apps::gpu::KernelMail& mail = work_.mail[number_];
    unsigned part = 0;
    const int side = mail.route_of(task, part);
    if (!mail.take(work_.port, turn_, side, part)) return false;
    const apps::gpu::Run cells = apps::gpu::run_of(slabs().cells(), mail.parts, part);
    const char* const from = mail.incoming(turn_, side);
    if (is_of_atoms()) {
      UnpackAtomsWork unpack{slabs(), now_, {}};
      unpack.buffers[side] = reinterpret_cast<const Cell*>(from);
      do_cells(unpack, side, cells);
    } else {
      UnpackSlopesWork unpack{slabs(), slopes_, {}};
      unpack.buffers[side] = const_cast<double*>(reinterpret_cast<const double*>(from));
      do_cells(unpack, side, cells);
    }
    return true;
  }

  const FusedWork& work_;
  const unsigned number_;
  const unsigned turn_;
  Cell* const now_;
  Cell* const sorted_;
  Sums* const sums_;
  double* const slopes_;
  long* const problems_;
};

ISTHMUS_DEVICE_FUNCTION void fused(const FusedWork& work) {
  isthmus::device::run_fused(work.fusion, work.port,
                             [&](const isthmus::device::Task& task, const isthmus::device::Crew& crew) {
                               return FusedExchange(work, task.step).do_task(task, crew);
                             });
}

}  // namespace molecular
