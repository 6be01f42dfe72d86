#!/usr/bin/env bash
# Builds the fuzz targets (preset fuzz) and lets libFuzzer work on each, from its corpus. Prints a line a
# target; exits 1 when any is short, that is, ended before its time, by a crash, a leak, a time or a size
# that is too much. What made it end stays in build/fuzz/found and is named.
#
#   bash tests/fuzz/run.sh [SECONDS [TARGET...]]
#
#   SECONDS   for each target (default 600)
#   TARGET    of audit, calls, csv, http_message, json (default: all of them)
#
# New inputs are kept in build/fuzz/corpus, for the next run. LETHE_SEED: of the mutations (default 1).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:-600}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { sed -n '6,9s/^# \{0,1\}//p' tests/fuzz/run.sh >&2; exit 2; }
[ $# -eq 0 ] || shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(audit calls csv http_message json)
for target in "${targets[@]}"; do
  [ -d "tests/fuzz/corpus/$target" ] || { echo "no such target: $target" >&2; exit 2; }
done

# A process that takes more is a find. So is an input that takes long: by the processor's time entry.cc ends
# it, by the clock this, for one that waits.
memory_mb=2048
input_seconds=1200
# Of an input, in bytes: long enough for what it is.
declare -A max_bytes=([audit]=8192 [calls]=4096 [csv]=4096 [http_message]=4096 [json]=4096)
# These two keep a service from one input to the next, so that what an input takes and gives back never
# balances and libFuzzer would run each twice to look for a leak: here the process is looked at, at its end.
# Weighing what is rare among their many features would take half of the time.
declare -A flags=([calls]="-detect_leaks=0 -entropic=0" [http_message]="-detect_leaks=0 -entropic=0")

mkdir -p build/fuzz
{ cmake --preset fuzz && cmake --build --preset fuzz --parallel "$(nproc)"; } >build/fuzz/build.log 2>&1 || {
  tail -n 40 build/fuzz/build.log >&2
  exit 1
}

TIMEFORMAT='%U %S'
found=build/fuzz/found
mkdir -p "$found"
status=0
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  log=build/fuzz/$target.log
  mkdir -p "$corpus"
  scratch=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" lethe-fuzz-run-XXXXXX)
  begin=$SECONDS
  ended=0
  # shellcheck disable=SC2086
  {
    time TMPDIR=$scratch \
      ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:malloc_context_size=10:quarantine_size_mb=64 \
      UBSAN_OPTIONS=print_stacktrace=1 \
      build/fuzz/bin/fuzz_"$target" -max_total_time="$seconds" -max_len="${max_bytes[$target]}" \
      -timeout=$input_seconds -rss_limit_mb=$memory_mb -seed="${LETHE_SEED:-1}" -print_final_stats=1 \
      -dict=tests/fuzz/"$target".dict -artifact_prefix="$found/$target-" -verbosity=1 ${flags[$target]:-} \
      "$corpus" tests/fuzz/corpus/"$target" >"$log" 2>&1
  } 2>"$log.cpu" || ended=$?
  rm -rf "$scratch"
  took=$((SECONDS - begin))
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d ' ' -f 2 || true)
  peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
  cpu=$(awk 'END { printf "%.0f", $1 + $2 }' "$log.cpu")
  said=ok
  if [ "$ended" -ne 0 ] || [ "$took" -lt "$seconds" ]; then said=short status=1; fi
  echo "$said fuzz $target: ${inputs:-?} inputs in $took s ($cpu s of a processor), coverage ${coverage:-?}, ${peak:-?} MB at most (bar no crash in $seconds s)"
  if [ "$said" = short ]; then
    grep -E 'does not hold|broken invariant|ERROR: |SUMMARY: |runtime error' "$log" | head -n 5 || true
    artifact=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    echo "  input ${artifact:-(none)}, log $log"
  fi
done
exit "$status"
