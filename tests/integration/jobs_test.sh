#!/usr/bin/env bash
# jobs_test.sh BIN: training jobs with real workers. First who may be one, and a job from the command line; then
# a worker of each kind is killed and others are stalled, stopped and cancelled (tests/show/jobs.sh does it more
# often). The seed is printed; LETHE_TEST_SEED repeats a run as far as timing allows.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh" "$1"
export LETHE_TENANT=clinic LETHE_MEMORY=visits

status 64 "$bin/lethe-worker" --backend gpu
said '--backend: must be one of auto, cpu, cuda'

umask 077
for caller in 'admin *:admin' 'app clinic:app' 'worker *:worker'; do
  lethe access new-token --name "${caller% *}" --grant "${caller#* }" --out "${caller% *}.token" >>access.toml
done
export LETHE_TOKEN_FILE=$work/admin.token
lethed_start "$work/data" --access "$work/access.toml"
lethe tenant create >/dev/null
lethe memory create --kernel rbf --gamma 0.5 --box 0.2 --key-dimension 2 --value-dimension 1 >/dev/null
export LETHE_TOKEN_FILE=$work/app.token
awk 'BEGIN { srand(7); for (i = 0; i < 200; i++)
  printf "{\"id\":\"token-%d\",\"key\":[%f,%f],\"value\":[%d]}\n", i, rand(), rand() + i % 2, i % 2 }' >in.ndjson
status 0 lethe insert --file in.ndjson
job=$(lethe job submit calibrate --tokens 32 --samples 2 -o json | field id)
unset LETHE_TOKEN_FILE

# A worker without the role ends with a word about it, and leaves the job alone.
worker=("$bin/lethe-worker" --server "$LETHE_ADDRESS" --backend cpu --threads 1)
status 1 "${worker[@]}" --token-file app.token
said '"event":"failed"'
"${worker[@]}" --token-file worker.token 2>worker.log &
working=$!
trap 'kill -9 "$working" 2>/dev/null || true; lethed_kill; rm -rf "$work"' EXIT
export LETHE_TOKEN_FILE=$work/app.token
status 0 lethe job watch "$job" -o json
equal "state" "$(field state <said)" succeeded
status 0 lethe job artefact "$job" --out sweep.json
equal "rows of the table" "$(grep -c '"meets_targets"' sweep.json)" "$((25 + $(grep -c '"recommended": {' sweep.json || true)))"
equal "digest" "$(sha256sum <sweep.json | cut -d' ' -f1)" "$(grep -oE '[0-9a-f]{64}' said | head -n 1)"
kill -TERM "$working"
wait "$working" || fail "the worker did not end with 0"
! grep -q 'token-1' worker.log || fail "the worker's log names a token"
status 0 lethe job delete "$job" --yes
status 69 lethe job get "$job"
unset LETHE_TOKEN_FILE
lethed_stop || fail "lethed did not end by itself with status 0"

mkdir kills
"$bin/worker_kills" "$bin" "$work/kills" 1 "${LETHE_TEST_SEED:-$RANDOM}" || {
  tail -n 5 kills/*.log >&2
  fail "worker_kills"
}
echo "jobs: $checks checks hold"
