#!/usr/bin/env bash
# batched.sh [--out FOLDER]: shows what is claimed of the batched path, from the built tree. A line a claim:
#
#   ok|short CLAIM: FIGURE (bar BAR)
#
# and exit status 1 when any is short. Needs build/release (tests/run.sh) and a quiet machine: problems a second
# are among the claims. About three minutes on two CPUs.
#
#   --out FOLDER    keeps each bench's text, JSON and plot there
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
usage() { sed -n '2,9s/^# \{0,1\}//p' tests/show/batched.sh >&2; exit 2; }
out=
while [ $# -gt 0 ]; do
  case "$1" in
    --out) [ $# -ge 2 ] || usage; out=$2; shift 2 ;;
    *) usage ;;
  esac
done

bin=${LETHE_BIN:-$root/build/release/bin}
for program in lethe-bench batched_test; do
  [ -x "$bin/$program" ] || { echo "batched: no $bin/$program; run tests/run.sh first" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -n "$out" ] || out=$work/out
mkdir -p "$out"

source tests/show/claims.sh

# The suite over every backend: shapes, bad problems, batch sizes, threads, differences of every derivative.
holds=0
"$bin/batched_test" >"$work/test" 2>&1 || holds=1
claim $holds "batched: the suite over all backends" \
  "$(sed -n 's/^\[==========\] \([0-9]* tests\) from.* ran.*/\1/p' "$work/test")" "all pass"
[ "$holds" -eq 0 ] || grep '^\[  FAILED  \]' "$work/test" | head -n 5

# run BENCH: its claims. What ends without any is short.
run() {
  SECONDS=0
  "$bin/lethe-bench" "$1" --claims "$work/claims" --json "$out/$1.json" --svg "$out/$1.svg" \
    >"$out/$1.txt" 2>"$work/err" || true
  if [ -s "$work/claims" ]; then
    cat "$work/claims"
    short=$((short + $(grep -c '^short ' "$work/claims" || true)))
  else
    claim 1 "$1" "$(tail -n 1 "$work/err")" "measured"
  fi
  rm -f "$work/claims"
  echo "   $1 took $SECONDS s"
}
run batched-solutions
run batched-speed

echo "batched: $short short"
[ "$short" -eq 0 ]
