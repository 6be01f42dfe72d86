#!/usr/bin/env bash
# kill_test.sh BIN: a dozen kills at random moments; tests/show/main-job.sh does many on real data. The seed
# is printed; LETHE_TEST_SEED repeats a run as far as timing allows.
set -euo pipefail
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bin/kill_stream" "$bin/lethed" "$work" 12 "${LETHE_TEST_SEED:-$RANDOM}" || {
  status=$?
  tail -n 5 "$work"/*.log
  exit "$status"
}
