#!/usr/bin/env bash
# ./dev demo: builds what it shows, and shows an MPI program at work.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

n=128
case "${1:-}" in
  '') ;;
  -n) n=${2:?-n wants a number} ;;
  *)
    cat <<'HELP'
usage: ./dev demo [-n POINTS]

Builds the library, its tools and the solver, and runs apps/jacobi3d, a 3-D Poisson solver in plain MPI, at 2 and at 8 ranks, with the paths that its messages
took. -n: points along each edge of the cube (128).
HELP
    case "$1" in -h | --help) exit 0 ;; *) exit 2 ;; esac ;;
esac

say "1. Building Isthmus and the solver"
"$DEV_ROOT/tools/dev/build.sh" --demo
export PATH="$DEV_PREFIX/bin:$PATH"
solver="$DEV_BUILD/release/apps/jacobi3d/jacobi3d"

# The solver's stdout is a pipe to mpiexec; whether a person sits behind that, only this script knows.
progress=lines
if [ -t 1 ]; then progress=bar; fi

# show RANKS HALO
show() {
  echo
  note "\$ ISTHMUS_EXPLAIN=1 mpiexec -n $1 jacobi3d -n $n --halo $2"
  ISTHMUS_EXPLAIN=1 timeout 600 mpiexec -n "$1" "$solver" -n "$n" --halo "$2" --progress "$progress" ||
    die "the solver at $1 ranks ended with status $?"
}
echo
say "2. The solver at 2 ranks, a core each"
show 2 datatype
echo
say "3. The same problem at 8 ranks, more than there may be cores: the answer is the same to the last digit"
show 8 pack
echo
say "Shown: an unchanged MPI program, built with our mpicxx's library, solved a problem whose answer is known, at 2 and at 8 ranks,"
say "and Isthmus told which path its messages took."
if grep -qs '^demo' "$DEV_BUILD/release/presets.stamp"; then
  say "The library's kernels for GPUs were left out, whose compiler takes longer than all the rest: ./dev build adds them."
fi
say "Your program runs the same way:"
say "  export PATH=$DEV_PREFIX/bin:\$PATH; mpicc hello.c -o hello && mpiexec -n 4 ./hello    (more in README.md; ./dev bench host compares)"
