#!/usr/bin/env bash
# jobs_test.sh BIN: training jobs with real workers, each of which is killed once; tests/show/jobs.sh does it
# more often. The seed is printed; LETHE_TEST_SEED repeats a run as far as timing allows.
set -euo pipefail
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bin/worker_kills" "$bin" "$work" 1 "${LETHE_TEST_SEED:-$RANDOM}" || {
  status=$?
  tail -n 5 "$work"/*.log
  exit "$status"
}
