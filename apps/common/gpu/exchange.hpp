// Messages of a fixed length between neighbours, out of and into the memory in which an engine computes, in
// each form of communication.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "common/gpu/engine.hpp"
#include "common/gpu/form.hpp"

namespace apps::gpu {

// One message to a rank and one from it, in each exchange. `tag_in` is the other side's `tag_out`; each pair
// of rank and tag is there once. A route of a process to itself is a copy.
struct Route {
  int rank;
  int tag_out;
  int tag_in;
  std::size_t bytes_out;
  std::size_t bytes_in;
};

// All routes of a process. Use: kernels write to outgoing(r), post(), other kernels, finish(), kernels read
// incoming(r), in this order each time.
class Exchange {
 public:
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange();

  [[nodiscard]] void* outgoing(std::size_t route) const { return memory_.data() + out_[route]; }
  // What the last post() brings. The places of two in a row may differ.
  [[nodiscard]] void* incoming(std::size_t route) const {
    return memory_.data() + in_[route] + (turn_ % turns_) * inward_bytes_;
  }
  // What has been launched before may be sent when it is done. In the synchronous form the host waits for it.
  virtual void post() = 0;
  // What is launched behind sees what has come. In the synchronous form the host waits for it.
  virtual void finish() = 0;

 protected:
  // `turns`: how many places there are for what comes.
  Exchange(const Engine& engine, std::vector<Route> routes, int self, std::size_t turns);
  [[nodiscard]] bool is_self(const Route& route) const { return route.rank == self_; }
  void copy_to_self() const;

  const Engine& engine_;
  const std::vector<Route> routes_;
  const int self_;
  const std::size_t turns_;
  std::size_t turn_ = 0;
  std::vector<std::size_t> out_, in_;  // offsets in memory_
  std::size_t inward_bytes_ = 0;       // of one turn
  Buffer<char> memory_;

 private:
  std::size_t lay_out();
};

// What all exchanges of a program have in common. Outlives them.
class Communication {
 public:
  // Collective; `comm` is borrowed. Throws std::runtime_error where this MPI, or this place, has no such
  // form.
  Communication(const Engine& engine, Form form, StreamWay way, MPI_Comm comm);
  Communication(const Communication&) = delete;
  Communication& operator=(const Communication&) = delete;
  ~Communication();

  // Collective.
  [[nodiscard]] std::unique_ptr<Exchange> exchange(std::vector<Route> routes);
  // Throws where something enqueued has failed. The stream has passed it.
  void check() const;

 private:
  struct OnStream;
  const Engine& engine_;
  const Form form_;
  MPI_Comm comm_;
  std::unique_ptr<OnStream> on_stream_;
};

}  // namespace apps::gpu
