#!/usr/bin/env bash
# ./dev build: configures, builds and installs.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: ./dev build [--preset release|debug|asan|tsan] [--target NAME]... [--demo] [--verbose]

Builds Isthmus in build/PRESET (release, unless told) and installs it into build/prefix (release) or build/prefix-PRESET:
bin/{mpiexec,mpirun,mpicc,mpicxx,isthmus}, lib/libmpi_abi.so.1, include/mpi.h, pkg-config and CMake files.

  --preset NAME   release: optimised; debug: with assertions; asan: AddressSanitizer and UBSan, and the fuzzers;
                  tsan: ThreadSanitizer
  --demo          builds and installs what ./dev demo shows: everything but tests, benchmarks, other programs and kernels for GPUs. The next
                  ./dev build adds these
  --target NAME   builds only this target, and installs nothing
  --configure     builds nothing
  --verbose       shows the compilers' command lines
HELP
}

preset=release targets=() verbose=() configure_only='' demo=''
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:?--preset wants a name}; shift ;;
    --preset=*) preset=${1#*=} ;;
    --target) targets+=("${2:?--target wants a name}"); shift ;;
    --configure) configure_only=yes ;;
    --demo) demo=yes ;;
    --verbose | -v) verbose=(--verbose) ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "build: unknown argument '$1'" ;;
  esac
  shift
done
case "$preset" in release | debug | asan | tsan) ;; *) die "build: there is no preset '$preset'" ;; esac
if [ -n "$demo" ] && [ "$preset${targets[*]}" != release ]; then die "build: --demo goes with no --preset and no --target"; fi

# The sanitizers and fuzzers are for tests; the unit tests are built wherever GoogleTest is installed.
packages="build"
if [ "$preset" != release ]; then packages="test"; fi
if [ -n "$demo" ]; then packages="demo"; fi
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
  elif ! with_progress "building $preset" "$log" "$@"; then
    grep -En -m 20 -A 6 '(error:|FAILED:|CMake Error)' "$log" >&2 || tail -n 40 "$log" >&2
    die "the build of '$preset' failed (the full log is build/logs/build-$preset.log)"
  fi
}

# Where ccache is installed, what another build of the same sources has compiled is taken from it, whatever folder that build was in.
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_BASEDIR="$DEV_ROOT" CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime # precompiled headers ask for it
fi

# CMake notices its own files, not the presets; and GoogleTest, nvcc or ccache may have been installed since.
stamp=$({
  cat CMakePresets.json
  ls -d /usr/include/gtest /usr/include/benchmark /usr/bin/ccache build/nvcc/packages.stamp 2>/dev/null || true
} | cksum)
configured=$(cat "build/$preset/presets.stamp" 2>/dev/null || true)
options=()
if [ -n "$demo" ]; then
  # nvcc takes longer for the kernels than g++ for all the rest. What a whole build has configured stays as it is.
  if [ "$configured" != "$stamp" ]; then
    options=(-D ISTHMUS_KERNELS=OFF)
    stamp="demo $stamp"
  fi
  targets=(demo)
fi
if [ ! -f "build/$preset/build.ninja" ] || [ "$configured" != "$stamp" ]; then
  logged cmake --fresh --preset "$preset" --no-warn-unused-cli "${options[@]}"
  echo "$stamp" >"build/$preset/presets.stamp"
fi

if [ -n "$configure_only" ]; then exit 0; fi

arguments=()
for target in "${targets[@]}"; do arguments+=(--target "$target"); done
logged cmake --build "build/$preset" --parallel "$(dev_jobs)" "${arguments[@]}" "${verbose[@]}"

if [ -n "$demo" ] || [ ${#targets[@]} = 0 ]; then
  prefix=build/prefix
  if [ "$preset" != release ]; then prefix=build/prefix-$preset; fi
  cmake --install "build/$preset" --prefix "$DEV_ROOT/$prefix" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "the installation into $prefix failed (the full log is build/logs/build-$preset.log)"
  }
fi
note "build/$preset is up to date ($((SECONDS - begin)) s)"
