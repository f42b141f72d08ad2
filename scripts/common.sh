# Shared by the scripts; sourced. Sets root, and functions for messages: lines that overwrite each other on a terminal,
# plain lines in a pipe, colour only on a terminal without NO_COLOR.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/versions"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
  bold=$'\033[1m' red=$'\033[31m' green=$'\033[32m' plain=$'\033[0m'
else
  bold= red= green= plain=
fi

say() { printf '%s==> %s%s\n' "$bold" "$*" "$plain"; }
fail() {
  printf '%serror: %s%s\n' "$red" "$*" "$plain" >&2
  exit 1
}

# quietly WHAT COMMAND...: runs a command; its output is shown only if it fails. On a terminal the time passes visibly.
quietly() {
  local what=$1 log status seconds=0
  shift
  log=$(mktemp)
  if [ -t 1 ]; then
    "$@" >"$log" 2>&1 &
    local pid=$!
    while kill -0 "$pid" 2>/dev/null; do
      printf '\r%s ... %ds' "$what" "$seconds"
      sleep 1
      seconds=$((seconds + 1))
    done
    wait "$pid"
    status=$?
    printf '\r\033[K'
  else
    "$@" >"$log" 2>&1
    status=$?
  fi
  if [ "$status" = 0 ]; then
    printf '%s\n' "$what: done"
  else
    printf '%s%s: failed%s\n' "$red" "$what" "$plain"
    tail -n 60 "$log"
  fi
  rm -f "$log"
  return "$status"
}

jobs=$(nproc 2>/dev/null || echo 2)
