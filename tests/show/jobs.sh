#!/usr/bin/env bash
# jobs.sh [BIN]: what is claimed of training jobs: 21 workers killed (kill -9) in the middle of jobs of every
# kind, and every artefact is that of an undisturbed run, to the bit; a stalled worker's late writes do not
# show; one that is asked to stop leaves its last step; a cancellation arrives within two heartbeats.
# A line a claim, as in the others of this folder. Needs the built programs alone. Takes some minutes. The seed
# is printed; LETHE_TEST_SEED sets it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/release/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
source tests/show/claims.sh

kills=21
holds=0
"$bin/worker_kills" "$bin" "$work" $((kills / 3)) "${LETHE_TEST_SEED:-$RANDOM}" 2>&1 | tee "$work/out" || holds=1
killed=$(sed -n 's/^workers: \([0-9]*\) killed, every artefact the same to the bit$/\1/p' "$work/out")
claim $((holds != 0 || ${killed:-0} < 20)) "jobs: workers killed, every artefact equal to an undisturbed run's, to the bit" \
  "${killed:-not all of it held}" "at least 20"
resumed=$(sed -n 's/^resumed from a checkpoint: \([0-9]*\)$/\1/p' "$work/out")
claim $((holds != 0 || ${resumed:-0} < 1)) "jobs: each went on from the last checkpoint that the server had, the others from the beginning" \
  "${resumed:-none} of $kills from a checkpoint" "at least 1"
cancelled=$(sed -n 's/^stalled at step .*, cancelled after \(.*\)$/\1/p' "$work/out")
claim $((holds != 0 || ${#cancelled} == 0)) "jobs: late writes of a stalled worker refused, and a cancellation within two heartbeats" \
  "${cancelled:-not seen}" "2 s, two thirds of a lease of 3 s"
[ "$short" -eq 0 ]
