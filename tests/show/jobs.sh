#!/usr/bin/env bash
# jobs.sh [BIN]: what is claimed of training jobs: 21 workers killed (kill -9) in the middle of jobs of every
# kind, and every artefact is that of an undisturbed run, to the bit; a stalled worker's late writes do not
# show; one that is asked to stop leaves its last step; a cancellation arrives within two heartbeats.
# Needs the built programs alone. Takes some minutes. The seed is printed; LETHE_TEST_SEED sets it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/release/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bin/worker_kills" "$bin" "$work" 7 "${LETHE_TEST_SEED:-$RANDOM}"
