#!/usr/bin/env bash
# batched.sh [--full] [--out FOLDER]: shows what is claimed of the batched path and of training, from the built
# tree. A line a claim:
#
#   ok|short CLAIM: FIGURE (bar BAR)
#
# and exit status 1 when any is short. Needs build/release (tests/run.sh) and a quiet machine: problems and tokens a
# second are among the claims. Hours of intensive care are read from the file that LETHE_ICU_CSV names (as for
# exact-memory.sh), text from the one that LETHE_TEXT names; without them both are made up. Of a text, xz says what
# it needs for the part that judges.
#
#   default         short trainings with one seed: about a quarter of an hour on two CPUs
#   --full          trainings with three seeds to the end: some hours
#   --out FOLDER    keeps each bench's text, JSON and plot there
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
usage() { sed -n '2,15s/^# \{0,1\}//p' tests/show/batched.sh >&2; exit 2; }
full= out=
while [ $# -gt 0 ]; do
  case "$1" in
    --full) full=1; shift ;;
    --out) [ $# -ge 2 ] || usage; out=$2; shift 2 ;;
    *) usage ;;
  esac
done

bin=${LETHE_BIN:-$root/build/release/bin}
for program in lethe-bench batched_test model_test; do
  [ -x "$bin/$program" ] || { echo "batched: no $bin/$program; run tests/run.sh first" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -n "$out" ] || out=$work/out
mkdir -p "$out"

source tests/show/claims.sh

icu=${LETHE_ICU_CSV:-$(compgen -G "$root/../*/data/icu2012/set-a.csv" | head -n 1 || true)}
text=${LETHE_TEXT:-$(compgen -G "$root/../*/data/text/*.txt" | head -n 1 || true)}
[ -r "$icu" ] || icu=
[ -r "$text" ] || text=

# suite TEST CLAIM
suite() {
  local holds=0
  "$bin/$1" >"$work/test" 2>&1 || holds=1
  claim $holds "$2" "$(sed -n 's/^\[==========\] \([0-9]* tests\) from.* ran.*/\1/p' "$work/test")" "all pass"
  [ "$holds" -eq 0 ] || grep '^\[  FAILED  \]' "$work/test" | head -n 5
}
# Shapes, bad problems, batch sizes, threads, differences of every derivative.
suite batched_test "batched: the suite over all backends"
# Differences of every operation and model, resuming to the bit, threads, what is refused.
suite model_test "training: the suite of models, encoders and their trainers"

# run BENCH [FLAGS]: its claims. What ends without any is short.
run() {
  SECONDS=0
  "$bin/lethe-bench" "$@" --claims "$work/claims" --json "$out/$1.json" --svg "$out/$1.svg" \
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
run train-step ${text:+--text "$text"}
run rare-recall-encoder ${icu:+--icu "$icu"}
if [ -n "$full" ]; then
  run selective-copy
  run char-lm ${text:+--text "$text"}
else
  run selective-copy --seeds 1 --filler 32 --steps 1000
  run char-lm ${text:+--text "$text"} --seeds 1 --steps 500
fi
sed -n '/^attention/,/^$/s/^/   /p' "$out/selective-copy.txt"
sed -n '/^seed/,/^$/s/^/   /p' "$out/char-lm.txt"
if [ -n "$text" ] && command -v xz >/dev/null; then
  # As char-lm splits it: what the last tenth adds to the compressed whole.
  size=$(wc -c <"$text")
  last=$((size / 10))
  packed() { xz -9e -c | wc -c; }
  awk -v all="$(packed <"$text")" -v first="$(head -c $((size - last)) "$text" | packed)" -v n="$last" \
    'BEGIN { printf "   xz -9e: %.3f bits a character for the last tenth after the rest\n", 8 * (all - first) / n }'
fi

echo "batched: $short short"
[ "$short" -eq 0 ]
