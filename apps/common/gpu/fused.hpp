// What the applications' fused kernels (<isthmus/fuse.cuh>) have in common: for nvcc and for the host's
// twins.
#pragma once

#include <isthmus/fuse.cuh>

#include "common/gpu/points.hpp"

namespace apps::gpu {

struct Run {
  long begin, end;
};
// The part `part` of `parts` of so many points.
APPLICATION_DEVICE Run run_of(long points, unsigned parts, unsigned part) {
  return {points * part / parts, points * (part + 1) / parts};
}

// Of the points of `Work`, those of one of `tasks` tasks, by a block.
template <class Work>
ISTHMUS_DEVICE_FUNCTION void do_part(const Work& work, unsigned tasks, unsigned task) {
  const isthmus::device::ByBlock by;
  const Run run = run_of(work.points(), tasks, task);
  for (long i = run.begin + by.index(); i < run.end; i += by.size())
    work.point(i);
}

// A message to each neighbour and one from it, in each of a row of exchanges; by value in a kernel's work. A
// message is cut into parts, each with a signal of its own, so that several blocks send and receive it.
//
// There are two places for each message, in turn. An exchange goes both ways between two neighbours, so
// whoever writes into the first place again has got the second message of the other, which that one has sent
// after it read the first; by then, what a proxy had to carry out of a place has been carried, too.
struct KernelMail {
  static constexpr unsigned turn_count = 2;
  static constexpr int most_routes = 16;
  static constexpr unsigned most_parts = 16;

  unsigned share;
  unsigned first_signal;
  unsigned parts;           // of a message
  int routes;               // as many in all processes
  int peers[most_routes];   // -1: none
  int theirs[most_routes];  // the number that the route has there
  char* memory;             // of the share
  unsigned long long place_bytes;

  // A task for each part of each route with a peer.
  APPLICATION_DEVICE unsigned tasks() const {
    unsigned peered = 0;
    for (int route = 0; route < routes; ++route)
      peered += peers[route] >= 0 ? 1 : 0;
    return peered * parts;
  }
  // The route and the part that the task `task` is about.
  ISTHMUS_DEVICE_FUNCTION int route_of(unsigned task, unsigned& part) const {
    part = task % parts;
    int route = 0;
    for (unsigned left = task / parts; peers[route] < 0 || left > 0; ++route)
      if (peers[route] >= 0) --left;
    return route;
  }
  // Where a block writes what goes out: into the neighbour's memory where that is mapped.
  ISTHMUS_DEVICE_FUNCTION char* outgoing(const isthmus::device::DevicePort& port, unsigned turn,
                                         int route) const {
    void* const there = port.address({share, peers[route], place(turn, true, theirs[route])});
    return static_cast<char*>(isthmus::device::see(there ? there : memory + place(turn, false, route)));
  }
  // The bytes from `begin` to `end`, which this block has written there, are the part `part`. By a block;
  // false: the port was ended.
  ISTHMUS_DEVICE_FUNCTION bool send(const isthmus::device::DevicePort& port, unsigned turn, int route,
                                    unsigned part, unsigned long long begin, unsigned long long end) const {
    const isthmus::device::ByBlock by;
    const int peer = peers[route];
    const unsigned told = signal(turn, theirs[route], part);
    by.sync();
    if (port.is_mapped(share, peer)) return port.signal(by, peer, told, 1);
    return port.put_with_signal(by, {share, peer, place(turn, true, theirs[route]) + begin},
                                memory + place(turn, false, route) + begin, end - begin, told, 1);
  }
  // Until the part has come. By a block; false: the port was ended.
  ISTHMUS_DEVICE_FUNCTION bool take(const isthmus::device::DevicePort& port, unsigned turn, int route,
                                    unsigned part) const {
    return port.take(isthmus::device::ByBlock{}, signal(turn, route, part), 1);
  }
  ISTHMUS_DEVICE_FUNCTION const char* incoming(unsigned turn, int route) const {
    return isthmus::device::see(memory + place(turn, true, route));
  }

  // A task of a role that sends: a part of a message of `count(route)` values, of which number `i` is
  // `get(route, i)`. By a block.
  template <class Value, class Count, class Get>
  ISTHMUS_DEVICE_FUNCTION bool send_values(const isthmus::device::DevicePort& port, unsigned turn,
                                           unsigned task, Count count, Get get) const {
    const isthmus::device::ByBlock by;
    unsigned part = 0;
    const int route = route_of(task, part);
    const Run run = run_of(count(route), parts, part);
    auto* const values = reinterpret_cast<Value*>(outgoing(port, turn, route));
    for (long i = run.begin + by.index(); i < run.end; i += by.size())
      values[i] = get(route, i);
    return send(port, turn, route, part, static_cast<unsigned long long>(run.begin) * sizeof(Value),
                static_cast<unsigned long long>(run.end) * sizeof(Value));
  }
  // The same of one that waits for them: `put(route, i, value)`.
  template <class Value, class Count, class Put>
  ISTHMUS_DEVICE_FUNCTION bool take_values(const isthmus::device::DevicePort& port, unsigned turn,
                                           unsigned task, Count count, Put put) const {
    const isthmus::device::ByBlock by;
    unsigned part = 0;
    const int route = route_of(task, part);
    if (!take(port, turn, route, part)) return false;
    const Run run = run_of(count(route), parts, part);
    const auto* const values = reinterpret_cast<const Value*>(incoming(turn, route));
    for (long i = run.begin + by.index(); i < run.end; i += by.size())
      put(route, i, values[i]);
    return true;
  }

  APPLICATION_DEVICE unsigned long long place(unsigned turn, bool inward, int route) const {
    const unsigned row = 2 * turn + (inward ? 1 : 0);
    return (row * static_cast<unsigned long long>(routes) + static_cast<unsigned>(route)) * place_bytes;
  }

 private:
  APPLICATION_DEVICE unsigned signal(unsigned turn, int route, unsigned part) const {
    return first_signal + (turn * static_cast<unsigned>(routes) + static_cast<unsigned>(route)) * parts +
           part;
  }
};

}  // namespace apps::gpu
