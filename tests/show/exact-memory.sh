#!/usr/bin/env bash
# exact-memory.sh [--full] [--out FOLDER]: shows what is claimed of the exact memory, from the built tree. A
# line a claim:
#
#   ok|short CLAIM: FIGURE (bar BAR)
#
# and exit status 1 when any is short. Needs build/release (tests/run.sh) and a quiet machine: ratios of times are
# among the claims. The hours of intensive care are read from the file that LETHE_ICU_CSV names: set-a of the
# PhysioNet/CinC Challenge 2012 as a CSV, a row an hour; the project does not need them.
#
#   default         1,000 random lives of memories of up to 400 tokens, benches in their full form
#   --full          10,000 of them, of up to 2,000 tokens: about an hour on two CPUs, since badly conditioned
#                   memories with an unbounded kernel take minutes each (LETHE_TRAJECTORIES and LETHE_LARGEST
#                   for other numbers)
#   --out FOLDER    keeps each bench's text, JSON and plot there
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
usage() { sed -n '2,15s/^# \{0,1\}//p' tests/show/exact-memory.sh >&2; exit 2; }
lives=1000 largest=400 out=
while [ $# -gt 0 ]; do
  case "$1" in
    --full) lives=10000 largest=2000; shift ;;
    --out) [ $# -ge 2 ] || usage; out=$2; shift 2 ;;
    *) usage ;;
  esac
done
lives=${LETHE_TRAJECTORIES:-$lives}
export LETHE_LARGEST=${LETHE_LARGEST:-$largest}

bin=${LETHE_BIN:-$root/build/release/bin}
for program in lethe-bench trajectory_test; do
  [ -x "$bin/$program" ] || { echo "exact-memory: no $bin/$program; run tests/run.sh first" >&2; exit 2; }
done
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
[ -n "$out" ] || out=$work/out
mkdir -p "$out"

source tests/show/claims.sh

icu=${LETHE_ICU_CSV:-$(compgen -G "$root/../*/data/icu2012/set-a.csv" | head -n 1 || true)}
[ -r "$icu" ] || icu=

# bench NAME [FLAGS]: the claims of one bench. What ends without any is short.
bench() {
  local name=$1 flags=("${@:2}")
  if [ -n "$icu" ] && "$bin/lethe-bench" "$name" --help 2>/dev/null | grep -q -- '--icu '; then
    flags+=(--icu "$icu")
  fi
  rm -f "$work/claims"
  SECONDS=0
  "$bin/lethe-bench" "$name" --claims "$work/claims" --json "$out/$name.json" --svg "$out/$name.svg" \
    "${flags[@]}" >"$out/$name.txt" 2>"$work/err" || true
  if [ -s "$work/claims" ]; then
    cat "$work/claims"
    short=$((short + $(grep -c '^short ' "$work/claims" || true)))
  elif [ -e "$work/claims" ]; then
    claim 1 "$name" "measured nothing" "measured; LETHE_ICU_CSV must name a file that can be read"
  else
    claim 1 "$name" "$(tail -n 1 "$work/err")" "measured"
  fi
  echo "   $name took $SECONDS s"
}

# Random lives, in as many processes as there are CPUs.
shards=$(nproc)
SECONDS=0
for ((i = 0; i < shards; i++)); do
  LETHE_TRAJECTORIES=$lives LETHE_SHARD=$i/$shards "$bin/trajectory_test" >"$work/lives.$i" 2>&1 &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
pids=()
# sum NAME: the shards' figures of that name, added.
sum() {
  cat "$work"/lives.* | grep '^trajectories=' | tr ' ' '\n' | sed -n "s/^$1=//p" | awk '{ s += $1 } END { print s + 0 }'
}
ran=$(sum trajectories)
operations=$(sum operations)
all=0
[ "$ran" -eq "$lives" ] && [ "$failed" -eq 0 ] || all=1
claim $all "random lives of memories: finished" "$(sum finished) of $lives, $operations operations" "all"
for what in partition digest; do
  holds=0
  [ "$ran" -eq "$lives" ] && [ "$(sum equal_$what)" -eq "$lives" ] || holds=1
  claim $holds "random lives of memories: every ${what} equal to a cold refit's" "$(sum equal_$what) of $lives" "all"
done
holds=0
[ "$ran" -eq "$lives" ] && [ "$(sum uncertified)" -eq 0 ] || holds=1
claim $holds "random lives of memories: UNCERTIFIED states served" "$(sum uncertified)" "0"
echo "   climbed the ladder: $(sum climbs) states; finished by the cold solver: $(sum fallbacks) updates; refitted: $(sum refits)"
echo "   random lives took $SECONDS s; $(grep -h '^LETHE_SEED=' "$work"/lives.0 | head -n 1)"
[ "$failed" -eq 0 ] || grep -h -m 3 -A 4 'Failure' "$work"/lives.* || true

# The published experiments.
bench unlearning-audit
bench sequences
bench rare-recall
bench icu-selection
bench latency
# Costs.
bench forget-vs-refit
bench insert-growth
bench query-vs-softmax
bench row-limit

echo "exact-memory: $short short"
[ "$short" -eq 0 ]
