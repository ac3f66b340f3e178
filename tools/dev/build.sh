#!/usr/bin/env bash
# ./dev build: configures, builds and installs.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: ./dev build [--preset release|debug|asan|tsan|fuzz] [--target NAME]... [--verbose]

Builds Isthmus in build/PRESET (release, unless told) and installs it into build/prefix (release) or build/prefix-PRESET:
bin/{mpiexec,mpirun,mpicc,mpicxx,isthmus}, lib/libmpi_abi.so.1, include/mpi.h, pkg-config and CMake files.

  --preset NAME   release: optimised; debug: with assertions; asan: AddressSanitizer and UBSan; tsan: ThreadSanitizer;
                  fuzz: the fuzzers, with clang
  --target NAME   builds only this target, and installs nothing
  --configure     builds nothing
  --verbose       shows the compilers' command lines
HELP
}

preset=release targets=() verbose=() configure_only=
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:?--preset wants a name}; shift ;;
    --preset=*) preset=${1#*=} ;;
    --target) targets+=("${2:?--target wants a name}"); shift ;;
    --configure) configure_only=yes ;;
    --verbose | -v) verbose=(--verbose) ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "build: unknown argument '$1'" ;;
  esac
  shift
done
case "$preset" in release | debug | asan | tsan | fuzz) ;; *) die "build: there is no preset '$preset'" ;; esac

# The sanitizers and fuzzers are for tests; the unit tests are built wherever GoogleTest is installed.
packages="build"
if [ "$preset" != release ]; then packages="test"; fi
"$DEV_ROOT/tools/dev/setup.sh" "$packages"

cd "$DEV_ROOT"
dev_lock "$preset"
mkdir -p "$DEV_LOGS"
log="$DEV_LOGS/build-$preset.log"
: >"$log"
begin=$SECONDS

# logged COMMAND...: its output is seen live on a terminal, and is kept in the log otherwise, of which a failure shows the end.
logged() {
  if [ -t 1 ]; then
    "$@" || die "the build of '$preset' failed"
  elif ! "$@" >>"$log" 2>&1; then
    grep -En -m 20 -A 6 '(error:|FAILED:|CMake Error)' "$log" >&2 || tail -n 40 "$log" >&2
    die "the build of '$preset' failed (the full log is build/logs/build-$preset.log)"
  fi
}

# CMake notices its own files, not the presets; and GoogleTest or nvcc may have been installed since.
stamp=$({ cat CMakePresets.json; ls -d /usr/include/gtest /usr/include/benchmark build/nvcc/packages.stamp 2>/dev/null || true; } | cksum)
if [ ! -f "build/$preset/build.ninja" ] || [ "$(cat "build/$preset/presets.stamp" 2>/dev/null)" != "$stamp" ]; then
  logged cmake --fresh --preset "$preset" --no-warn-unused-cli
  echo "$stamp" >"build/$preset/presets.stamp"
fi

if [ -n "$configure_only" ]; then exit 0; fi

arguments=()
for target in "${targets[@]}"; do arguments+=(--target "$target"); done
logged cmake --build "build/$preset" --parallel "$(dev_jobs)" "${arguments[@]}" "${verbose[@]}"

if [ "$preset" != fuzz ] && [ ${#targets[@]} = 0 ]; then
  prefix=build/prefix
  if [ "$preset" != release ]; then prefix=build/prefix-$preset; fi
  cmake --install "build/$preset" --prefix "$DEV_ROOT/$prefix" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "the installation into $prefix failed (the full log is build/logs/build-$preset.log)"
  }
fi
note "build/$preset is up to date ($((SECONDS - begin)) s)"
