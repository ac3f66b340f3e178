// Levels of a search in one kernel, which ends it by itself where kernels of all processes reach each other
// (<isthmus/fuse.cuh>): for nvcc and for the host's twin.
#pragma once

#include "common/gpu/fused.hpp"
#include "work.hpp"

namespace breadth_first {

// In this order: who sends comes before who waits for others.
//   locals   the own part of the column's frontier; nothing is reached yet
//   asks     whether anything was found anywhere
enum Role : unsigned {
  expand_sends,
  locals,
  expand_arrivals,
  edges,
  fold_sends,
  fold_arrivals,
  folds,
  asks,
  role_count
};

struct FusedWork {
  static constexpr const char* kernel = "breadth_first_fused";

  isthmus::device::DevicePort port;
  isthmus::device::Fusion fusion;
  int words;  // of a part
  int row, column, columns;
  long edge_count;
  const int* sources;
  const int* targets;
  Word* visited;
  Word* frontier;
  Word* of_column;  // the frontier's parts
  Word* reached;
  int* levels;
  int* counts;  // by depth
  int* over;    // the first depth that has found nothing, 0 before; then a place to ask by
  int depth;    // before the first step
  unsigned first_turn;
  apps::gpu::KernelMail expand, fold;  // a route to each row, to each column
};

// One level, as one block of threads sees it.
class FusedLevel {
 public:
  ISTHMUS_DEVICE_FUNCTION FusedLevel(const FusedWork& work, unsigned step)
      : work_(work),
        depth_(work.depth + static_cast<int>(step) + 1),
        turn_((work.first_turn + step) % apps::gpu::KernelMail::turn_count),
        frontier_(isthmus::device::see(work.frontier)),
        of_column_(isthmus::device::see(work.of_column)),
        reached_(isthmus::device::see(work.reached)),
        over_(isthmus::device::see(work.over)) {}

  ISTHMUS_DEVICE_FUNCTION bool do_task(const isthmus::device::Task& task,
                                       const isthmus::device::Crew& crew) const {
    if (!crew.wait_for_last(folds) || !crew.wait_for_last(asks)) return false;
    if (task.step > 0 && *static_cast<const volatile int*>(over_) != 0) return true;
    const unsigned tasks = work_.fusion.tasks[task.role];
    switch (task.role) {
      case expand_sends:
        return send(work_.expand, frontier_, 0, task.index);
      case locals: {
        const LocalWork local{work_.words, work_.columns, frontier_, part(of_column_, work_.row), reached_};
        apps::gpu::do_part(local, tasks, task.index);
        return true;
      }
      case expand_arrivals:
        return receive(task.index);
      case edges:
        if (!crew.wait_for(locals) || !crew.wait_for(expand_arrivals)) return false;
        follow_edges(tasks, task.index);
        return true;
      case fold_sends:
        return crew.wait_for(edges) && send(work_.fold, reached_, work_.words, task.index);
      case fold_arrivals: {
        unsigned piece = 0;
        const int route = work_.fold.route_of(task.index, piece);
        return work_.fold.take(work_.port, turn_, route, piece);
      }
      case folds:
        // The edges: no message tells of them where a row has one process. The frontier is written anew when
        // it has been sent.
        if (!crew.wait_for(expand_sends) || !crew.wait_for(edges) || !crew.wait_for(fold_sends) ||
            !crew.wait_for(fold_arrivals))
          return false;
        apps::gpu::do_part(fold_work(), tasks, task.index);
        return true;
      default:
        return crew.wait_for(folds) && ask();
    }
  }

 private:
  ISTHMUS_DEVICE_FUNCTION Word* part(Word* parts, int number) const {
    return parts + static_cast<long>(number) * work_.words;
  }
  // To each process of the row or column its part of `from`, whose parts are `stride` apart.
  ISTHMUS_DEVICE_FUNCTION bool send(const apps::gpu::KernelMail& mail, const Word* from, int stride,
                                    unsigned task) const {
    return mail.send_values<Word>(
        work_.port, turn_, task, [&](int) { return work_.words; },
        [&](int route, long i) { return from[static_cast<long>(route) * stride + i]; });
  }
  ISTHMUS_DEVICE_FUNCTION bool receive(unsigned task) const {
    return work_.expand.take_values<Word>(
        work_.port, turn_, task, [&](int) { return work_.words; },
        [&](int route, long i, Word value) { part(of_column_, route)[i] = value; });
  }
  ISTHMUS_DEVICE_FUNCTION void follow_edges(unsigned tasks, unsigned task) const {
    const isthmus::device::ByBlock by;
    const EdgesWork work{work_.edge_count, isthmus::device::see(work_.sources),
                         isthmus::device::see(work_.targets), of_column_, reached_};
    const apps::gpu::Run run = apps::gpu::run_of(work.points(), tasks, task);
    for (long i = run.begin + by.index(); i < run.end;
         i += static_cast<long>(by.size()) * EdgesWork::together)
      work.points_together(i, by.size(), run.end);
  }
  ISTHMUS_DEVICE_FUNCTION FoldWork fold_work() const {
    FoldWork fold{1,
                  work_.words,
                  depth_,
                  {part(reached_, work_.column)},
                  isthmus::device::see(work_.visited),
                  frontier_,
                  isthmus::device::see(work_.levels),
                  isthmus::device::see(work_.counts) + depth_};
    for (int route = 0; route < work_.fold.routes; ++route)
      if (work_.fold.peers[route] >= 0)
        fold.reached[fold.parts++] = reinterpret_cast<const Word*>(work_.fold.incoming(turn_, route));
    return fold;
  }
  ISTHMUS_DEVICE_FUNCTION bool ask() const {
    const isthmus::device::ByBlock by;
    int* const found = over_ + 1;
    if (by.index() == 0) *found = isthmus::device::see(work_.counts)[depth_];
    if (!work_.port.allreduce(by, found, 1, [](int a, int b) { return a + b; })) return false;
    by.sync();
    if (by.index() == 0 && *found == 0) *over_ = depth_;
    return true;
  }

  const FusedWork& work_;
  const int depth_;
  const unsigned turn_;
  Word* const frontier_;
  Word* const of_column_;
  Word* const reached_;
  int* const over_;
};

ISTHMUS_DEVICE_FUNCTION void fused(const FusedWork& work) {
  isthmus::device::run_fused(work.fusion, work.port,
                             [&](const isthmus::device::Task& task, const isthmus::device::Crew& crew) {
                               return FusedLevel(work, task.step).do_task(task, crew);
                             });
}

}  // namespace breadth_first
