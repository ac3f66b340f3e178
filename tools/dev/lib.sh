# shellcheck shell=bash disable=SC2034
# What the shell parts of ./dev share, and the helpers of suites written in bash (tools/dev/suites/README.md).
# Sourced, never run.

DEV_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
DEV_BUILD="$DEV_ROOT/build"
DEV_PREFIX="${DEV_PREFIX:-$DEV_BUILD/prefix}"
DEV_VENV="$DEV_BUILD/venv"
DEV_LOGS="${DEV_LOGS:-$DEV_BUILD/logs}"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  dev_bold=$'\e[1m' dev_dim=$'\e[2m' dev_red=$'\e[31m' dev_plain=$'\e[0m'
else
  dev_bold='' dev_dim='' dev_red='' dev_plain=''
fi

say() { printf '%s\n' "${dev_bold}$*${dev_plain}"; }
note() { printf '%s\n' "${dev_dim}$*${dev_plain}"; }
die() {
  printf '%s\n' "${dev_red}./dev: $*${dev_plain}" >&2
  exit 1
}

# Compilers that run at once: one a core, but never more than the memory holds (1.25 GiB each, the largest of ours).
dev_jobs() {
  local jobs kib limit
  jobs=$(nproc)
  kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [ "$limit" != max ] && [ $((limit / 1024)) -lt "$kib" ]; then kib=$((limit / 1024)); fi
  if [ $((kib / 1310720)) -lt "$jobs" ]; then jobs=$((kib / 1310720)); fi
  echo $((jobs > 0 ? jobs : 1))
}

# with_progress TITLE LOG COMMAND...: its output is added to LOG; every DEV_PROGRESS seconds (10) a line says how far it is. Its exit status is
# the command's, which is a program: Ctrl-C ends it too.
with_progress() {
  local title=$1 log=$2 status='' fd read_status step begin=$SECONDS
  shift 2
  exec {fd}< <(
    status=0
    env --default-signal=INT "$@" >>"$log" 2>&1 || status=$?
    echo "$status"
  )
  while [ -z "$status" ]; do
    read_status=0
    read -r -t "${DEV_PROGRESS:-10}" -u "$fd" status || read_status=$?
    if [ "$read_status" -gt 128 ]; then
      step=$(tail -c 4096 "$log" | grep -Eo '^\[[0-9]+/[0-9]+\]' | tail -n 1 || true)
      note "  ... $title: $((SECONDS - begin)) s${step:+, $step}"
    elif [ "$read_status" -gt 0 ]; then
      status=1
    fi
  done
  exec {fd}<&-
  return "$status"
}

# dev_lock NAME: holds build/NAME.lock until this shell ends, so that two ./dev of one tree do not build over each other.
dev_lock() {
  mkdir -p "$DEV_BUILD"
  local fd
  exec {fd}>"$DEV_BUILD/$1.lock"
  if ! flock -n "$fd"; then
    note "another ./dev works on build/$1; waiting for it"
    flock "$fd"
  fi
}

# ---- suites in bash ----------------------------------------------------------------------------------------------------

# suite_begin NAME: NAME is the file's name without number and extension.
suite_begin() {
  suite_name=$1 suite_passed=0 suite_failed=0 suite_skipped=0
  suite_tmp=$(mktemp -d "${TMPDIR:-/tmp}/isthmus-$1.XXXXXX")
  trap 'rm -rf "$suite_tmp"' EXIT
  cd "$DEV_ROOT" || exit 1
}

suite_pass() {
  suite_passed=$((suite_passed + 1))
  printf 'ok: %s\n' "$1"
}

# suite_fail NAME [FILE]: FILE's last lines are the details that ./dev test shows.
suite_fail() {
  suite_failed=$((suite_failed + 1))
  printf 'FAIL: %s\n' "$1"
  if [ -n "${2:-}" ]; then tail -n "${SUITE_TAIL:-40}" "$2" | sed 's/^/    /'; fi
}

suite_skip() {
  suite_skipped=$((suite_skipped + 1))
  printf 'skip: %s (%s)\n' "$1" "$2"
}

# expect NAME STATUS REGEX COMMAND...: the command ends within SUITE_TIMEOUT seconds (60) with that exit status, and what it
# prints (stdout and stderr together) holds a line that matches the extended regular expression (empty: anything).
expect() {
  local name=$1 status=$2 regex=$3 out="$suite_tmp/out" got=0
  shift 3
  timeout -k 5 "${SUITE_TIMEOUT:-60}" "$@" </dev/null >"$out" 2>&1 || got=$?
  if [ "$got" != "$status" ]; then
    { echo "$ $*"; echo "exit status $got, expected $status"; } >>"$out"
    suite_fail "$name" "$out"
  elif [ -n "$regex" ] && ! grep -Eq -- "$regex" "$out"; then
    { echo "$ $*"; echo "no line matches: $regex"; } >>"$out"
    suite_fail "$name" "$out"
  else
    suite_pass "$name"
  fi
}

# suite_end: prints the summary line and exits.
suite_end() {
  if [ $((suite_passed + suite_failed + suite_skipped)) = 0 ]; then suite_fail "the suite ran no case"; fi
  printf '%s: %d passed, %d failed, %d skipped\n' "$suite_name" "$suite_passed" "$suite_failed" "$suite_skipped"
  if [ "$suite_failed" = 0 ]; then exit 0; else exit 1; fi
}
