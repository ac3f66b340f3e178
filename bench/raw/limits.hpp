// What the machine can do at best, without any library. Every function reports its points itself.
#pragma once

namespace isthmus::bench {

// A cache line that two processes write in turn, one way; and a one-way stream of such lines.
void cache_line_limits(double budget);
// cache-line-pair alone: how far apart the two cores are at this moment (virtual cores move between real
// ones).
void distance_probe(double budget);
// Bytes copied by one core and by two: with memcpy, with streaming stores, and out of another process.
void copy_limits(double budget);
// A message through shared memory with nothing around it: copy in, flag, copy out.
void double_copy_limits(double budget);
// 8 processes on 2 cores that give way to each other.
void switching_limits(double budget);
// Starting and ending N processes that do nothing; what such a process holds in memory. `bare` is the
// program.
void starting_limits(const char* bare);

}  // namespace isthmus::bench
