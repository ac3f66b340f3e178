#ifndef ISTHMUS_CHARE_HPP
#define ISTHMUS_CHARE_HPP

#include <isthmus/chare/objects.hpp>
#include <isthmus/chare/section.hpp>

/// Message-driven objects (chares), in C++20 and later: docs/chares.md. Chares live in the processes of an
/// MPI job, and are invoked by messages that nobody waits for. Each process calls one entry at a time.
///
///     struct Hello : isthmus::chare::Chare {
///       void greet(int from) { std::printf("%d greets %d\n", from, int(index())); }
///     };
///     int main() {
///       return isthmus::chare::run([] {
///         auto all = isthmus::chare::Group<Hello>::create();
///         all.broadcast<&Hello::greet>(7);
///         isthmus::chare::quiescence(isthmus::chare::exit_when_called());
///       });
///     }
///
/// Messages between two chares are not kept in order. Threading: the thread that has called `run`. Errors:
/// what cannot be done ends the job, with a sentence that names the rank, the chare, the entry and the
/// reason; so does an exception that leaves an entry.

#endif
