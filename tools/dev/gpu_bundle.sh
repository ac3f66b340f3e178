#!/usr/bin/env bash
# ./dev gpu-bundle: everything that a machine with GPUs needs, where nothing can be installed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'HELP'
usage: ./dev gpu-bundle [--device-only] [--no-build] [--peers] [PROGRAM...]

Packs build/prefix, the device tests, the named programs (of build/release, or paths) and the shared libraries that all of these need into
build/gpu-bundle.tar.gz, under 64 MiB. There:

  tar xzf gpu-bundle.tar.gz && gpu-bundle/run isthmus_device_cuda

`gpu-bundle/run python3 gpu-bundle/bench/gpu.py` is `./dev bench gpu` there. `gpu-bundle/run python3 gpu-bundle/bench/gpu_forms.py` runs applications
in each form of communication, beside what `isthmus model` predicts (docs/model.md).

`gpu-bundle/run COMMAND` finds commands in the bundle first, and runs them with its libraries. The C and C++ run-time libraries are that machine's
own: glibc 2.36 and GCC 12, or later. The CUDA driver is never packed.

  --device-only   the device tests and named programs alone, without build/prefix
  --no-build      packs what is built
  --peers         with the other MPI libraries of ./dev bench gpu --peers, from PyPI
HELP
}

build=yes device_only='' peers='' programs=()
while [ $# -gt 0 ]; do
  case "$1" in
    --device-only) device_only=yes ;;
    --no-build) build='' ;;
    --peers) peers=yes ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; die "gpu-bundle: unknown argument '$1'" ;;
    *) programs+=("$1") ;;
  esac
  shift
done

cd "$DEV_ROOT"
if [ -n "$build" ]; then
  tools/dev/setup.sh build bundle
  if [ -n "$device_only" ]; then
    tools/dev/build.sh --target isthmus_device_cuda
  else
    tools/dev/build.sh
  fi
fi

bundle=build/gpu-bundle
rm -rf "$bundle" "$bundle.tar.gz"
mkdir -p "$bundle/bin" "$bundle/foreign"
cp build/release/test/device/isthmus_device_cuda "$bundle/bin/"
if [ -z "$device_only" ]; then
  cp -a build/prefix/. "$bundle/"
  # ./dev bench gpu, to be run there.
  cp build/release/bench/bench_gpu "$bundle/bin/"
  # Kernels that communicate: the first checks them, the second measures (docs/device.md).
  cp build/release/test/gpu/{gpu_device,gpu_initiated} "$bundle/bin/"
  mkdir -p "$bundle/bench"
  # Applications in each form, and what is predicted of them.
  cp build/release/apps/{breadth_first/breadth_first,molecular/molecular,multigrid/multigrid} "$bundle/bin/"
  cp tools/bench/{gpu,gpu_forms,gpu_peers,gpu_points,peers,processes,results,scaling,targets}.py "$bundle/bench/"
fi
for program in "${programs[@]}"; do
  if [ ! -f "$program" ]; then program=$(find build/release -type f -name "$program" -perm -u+x | head -n 1); fi
  if [ ! -f "$program" ]; then die "gpu-bundle: there is no such program"; fi
  cp "$program" "$bundle/bin/"
done
find "$bundle" -type f \( -perm -u+x -o -name '*.so*' \) -exec strip --strip-unneeded {} + 2>/dev/null || true

# needed FILE: the libraries that the loader would take, except the C and C++ run-time ones, the driver, and our own.
needed() {
  ldd "$1" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -Ev '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|util|resolv|gcc_s|stdc\+\+|cuda|mpi_abi))\.so' || true
}
find "$bundle" -type f \( -perm -u+x -o -name '*.so*' \) | while read -r file; do needed "$file"; done | sort -u |
  while read -r library; do cp -L "$library" "$bundle/foreign/"; done
# UCX loads its transports from a folder beside itself, by names that are links to one file, and they need libraries too.
if ls "$bundle"/foreign/libucs.so* >/dev/null 2>&1; then
  modules=$(dirname "$(ldconfig -p | awk '/libucs\.so/ { print $NF; exit }')")/ucx
  if [ -d "$modules" ]; then
    mkdir "$bundle/foreign/ucx"
    cp -P "$modules"/*.so* "$bundle/foreign/ucx/"
    for module in "$bundle"/foreign/ucx/*.so; do needed "$module"; done | sort -u |
      while read -r library; do if [ ! -e "$bundle/foreign/${library##*/}" ]; then cp -L "$library" "$bundle/foreign/"; fi; done
  fi
fi
# A library that came under two names is carried once: tar keeps hard links.
find "$bundle" -type f -name '*.so*' -exec sha256sum {} + | sort | while read -r sum file; do
  if [ "$sum" = "${last_sum:-}" ]; then ln -f "$last_file" "$file"; else last_sum=$sum last_file=$file; fi
done

cat >"$bundle/run" <<'RUN'
#!/bin/sh
# run COMMAND...: with the bundle's programs and libraries.
here=$(cd "$(dirname "$0")" && pwd)
PATH="$here/bin:$PATH" LD_LIBRARY_PATH="$here/lib:$here/foreign${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$@"
RUN
chmod +x "$bundle/run"
# With libraries of their own, which are not to be mixed with ours.
if [ -n "$peers" ]; then tools/bench/gpu_peers.py --pack "$bundle/peers"; fi
tar czf "$bundle.tar.gz" -C build gpu-bundle
size=$(du -m "$bundle.tar.gz" | cut -f 1)
if [ "$size" -ge 64 ]; then die "gpu-bundle: $bundle.tar.gz has $size MiB, which is too much to carry"; fi
echo "$bundle.tar.gz ($(du -h "$bundle.tar.gz" | cut -f 1)): tar xzf it there, then gpu-bundle/run isthmus_device_cuda"
