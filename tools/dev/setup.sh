#!/usr/bin/env bash
# ./dev setup [demo|build|test|bench|bundle]...: installs what these sets need (default: build and test). Quick when nothing is missing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# entries FILE SET: the lines of FILE under the section [SET], without comments.
entries() {
  awk -v set="$2" '{ sub(/#.*/, ""); gsub(/[ \t]+$/, "") } /^\[/ { on = ($1 == "[" set "]"); next } on && NF' "$1"
}

missing_packages() {
  local wanted
  wanted=$(for set in "$@"; do entries "$DEV_ROOT/tools/dev/debian-packages.txt" "$set"; done | sort -u)
  # shellcheck disable=SC2086
  comm -23 <(echo "$wanted") <(
    { dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null || true; } |
      awk '$1 == "installed" {print $2}' | sort -u
  )
}

install_packages() {
  local sudo=() list
  list=$(ls /var/lib/apt/lists/*_Packages* 2>/dev/null | head -n 1 || true)
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      sudo=(sudo)
    else
      die "these Debian packages are missing, and only root can install them; run as root:
  apt-get install --no-install-recommends $*"
    fi
  fi
  say "installing Debian packages: $*"
  local install=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 "$@")
  mkdir -p "$DEV_LOGS"
  local log="$DEV_LOGS/apt.log"
  : >"$log"
  if [ -n "$list" ] && with_progress "apt-get install" "$log" "${install[@]}"; then return; fi
  with_progress "apt-get update" "$log" "${sudo[@]}" apt-get update -q || true
  with_progress "apt-get install" "$log" "${install[@]}" || {
    tail -n 20 "$DEV_LOGS/apt.log" >&2
    die "apt-get could not install: $* (the full log is build/logs/apt.log)"
  }
}

debian_packages() {
  if ! command -v dpkg-query >/dev/null; then
    note "not a Debian or Ubuntu system: install the counterparts of the packages in tools/dev/debian-packages.txt yourself"
    return
  fi
  local missing
  missing=$(missing_packages "$@")
  # shellcheck disable=SC2086
  if [ -n "$missing" ]; then install_packages $missing; fi
}

# The distribution's interpreter where there is one: the python3-dev package belongs to it.
python_of_system() { if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else command -v python3; fi; }

# virtual_environment FOLDER PACKAGE...: FOLDER, made anew only when the list or the interpreter has changed; fails if pip does.
virtual_environment() {
  local folder=$1 python stamp
  shift
  python=$(python_of_system) || die "python3 was not found"
  stamp="$("$python" -VV) $*"
  if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/packages.stamp" 2>/dev/null)" = "$stamp" ]; then return; fi
  say "Python packages into build/${folder##*/}: $*"
  mkdir -p "$DEV_LOGS"
  rm -rf "$folder"
  "$python" -m venv "$folder" >"$DEV_LOGS/pip.log" 2>&1 || return 1
  with_progress pip "$DEV_LOGS/pip.log" "$folder/bin/python" -m pip install --disable-pip-version-check "$@" || return 1
  echo "$stamp" >"$folder/packages.stamp"
}

python_packages() {
  local packages
  packages=$(for set in "$@"; do entries "$DEV_ROOT/tools/dev/python-packages.txt" "$set"; done)
  if [ -z "$packages" ]; then return; fi
  # shellcheck disable=SC2086
  virtual_environment "$DEV_VENV" $packages || {
    tail -n 20 "$DEV_LOGS/pip.log" >&2
    die "pip could not install: $packages (the full log is build/logs/pip.log)"
  }
}

# Without an nvcc the library is built without its kernels for GPUs, and says so: no reason to end.
cuda_compiler() {
  if command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then return; fi
  # shellcheck disable=SC2046
  virtual_environment "$DEV_BUILD/nvcc" --retries 1 $(entries "$DEV_ROOT/tools/dev/python-packages.txt" nvcc) ||
    note "nvcc could not be installed (build/logs/pip.log says why): this build has no kernels for GPUs"
}

case "${1:-}" in -h | --help)
  cat <<'HELP'
usage: ./dev setup [demo|build|test|bench|bundle]...

Installs what the demo, building, testing, benchmarking or packing for a machine with GPUs needs; without a name, what building and testing needs. Debian packages come
from apt-get (as root or by sudo), Python packages go into build/, an nvcc too where the machine has none. The lists: tools/dev/debian-packages.txt and
tools/dev/python-packages.txt.
HELP
  exit 0 ;;
esac

sets=("$@")
if [ ${#sets[@]} = 0 ]; then sets=(build test); fi
for set in "${sets[@]}"; do
  case "$set" in demo | build | test | bench | bundle) ;; *) die "setup: '$set' is none of demo, build, test, bench, bundle" ;; esac
done

dev_lock setup
if [ "${sets[*]}" = demo ]; then
  debian_packages demo
  exit
fi
debian_packages demo build "${sets[@]}"
python_packages "${sets[@]}"
cuda_compiler
