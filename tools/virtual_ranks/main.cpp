// The program that mpiexec --ranks-per-process starts: it holds several ranks, each with a copy of the user's
// program (docs/virtual-ranks.md). All that it does is the library's.

#include <cstddef>

extern "C" int isthmus_virtual_ranks_main(int count, char** arguments, std::size_t thread_local_room);

namespace {

constexpr std::size_t room = 16384;
/// An executable's thread-local variables lie directly below the thread pointer, where the linker has put
/// those of the program that the process has been started with. These are the only ones of this program, and
/// keep the place free for the user's. Nobody reads them, and without the mark the compiler would leave them
/// away.
alignas(64) [[gnu::used]] thread_local std::byte kept_free[room];

}  // namespace

int main(int count, char** arguments) {
  kept_free[0] = std::byte{0};
  return isthmus_virtual_ranks_main(count, arguments, room);
}
