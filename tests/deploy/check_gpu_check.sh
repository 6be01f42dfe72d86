#!/usr/bin/env bash
# check_gpu_check.sh ROOT: deploy/gpu-check.sh where there is no device, dry, and on programs that answer as
# those of a machine with a device do, or fail.
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/tools"
fail() { echo "$*"; [ ! -f "$work/said" ] || cat "$work/said"; exit 1; }

# check STATUS ARGS...: what it says is in said; LETHE_BIN and tools are ours.
check() {
  local wanted=$1 status=0
  shift
  LETHE_BIN=$work/bin PATH=$work/tools:$PATH bash "$root/deploy/gpu-check.sh" "$@" >"$work/said" 2>&1 || status=$?
  [ "$status" -eq "$wanted" ] || fail "gpu-check.sh $* ended with $status, not $wanted"
}
says() { grep -qE -- "$1" "$work/said" || fail "gpu-check.sh does not say: $1"; }
# tool FOLDER/NAME: a program with this body.
tool() { { echo '#!/usr/bin/env bash'; cat; } >"$work/$1"; chmod +x "$work/$1"; }

# No device: one line, nothing done.
tool tools/nvidia-smi <<<'exit 9'
check 0
says '^none gpu-check: no NVIDIA device'
[ "$(wc -l <"$work/said")" -eq 1 ] || fail "more than a line without a device"
check 2 --nonsense
check 2 --out

# Dry: every step, none run.
tool tools/cmake <<<'touch "$(dirname "$0")/ran"'
check 0 --dry-run
for step in 'cmake --preset cuda' 'cmake --build --preset cuda' cuda_probe 'batched_test --gtest_filter' \
  'compute-sanitizer --tool memcheck' 'compute-sanitizer --tool racecheck' 'compute-sanitizer --tool initcheck' \
  'lethe-bench batched-backends' 'lethe-bench batched-solutions' python3; do
  says "would run.*$step"
done
[ ! -e "$work/tools/ran" ] || fail "--dry-run ran cmake"

# A device that answers.
tool tools/nvidia-smi <<<'echo 9.0'
check 2 --no-build
says 'gpu-check: no .*/cuda_probe'
tool tools/cmake <<<'printf "%s\n" "$*" >>"$(dirname "$0")/ran"'
tool tools/python3 <<<'echo "No module named torch"; exit 1'
tool tools/compute-sanitizer <<'TOOL'
echo "========= ERROR SUMMARY: 0 errors"
TOOL
tool bin/cuda_probe <<<'echo "cuda, a device"'
tool bin/batched_test <<<'echo "[  PASSED  ] 42 tests."'
tool bin/lethe-bench <<'TOOL'
echo "ok batched, cuda, fp64: $1 (bar something)" >"$3"
echo "short batched, fp64: the CPU's, which is not asked for (bar something)" >>"$3"
TOOL
check 0
says '^ok cuda: a small batch on the device: cuda, a device '
says '^ok cuda: the suite over the device: 42 tests passed '
says '^ok cuda: compute-sanitizer, racecheck: ERROR SUMMARY: 0 errors'
says '^ok batched, cuda, fp64: batched-backends'
says '^ok batched, cuda, fp64: batched-solutions'
says '^ok batched, cuda, fp64: train-backends'
says '^none PyTorch softmax.*No module named torch'
says '^gpu-check: 0 short'
grep -q 'LETHE_CUDA_ARCHITECTURES=90' "$work/tools/ran" || fail "built for another device"
if grep -q "the CPU's, which" "$work/said"; then fail "claims of the CPU are told"; fi

# Everything that can be wrong is told, and is the status.
tool bin/batched_test <<<'echo "[  PASSED  ] 3 tests."'
check 1 --no-build
says '^short cuda: the suite over the device: 3 tests'
tool bin/batched_test <<<'echo "[  PASSED  ] 41 tests."; echo "[  FAILED  ] one"; exit 1'
check 1 --no-build
says '^short cuda: the suite over the device'
tool bin/batched_test <<<'echo "[  PASSED  ] 42 tests."'
tool tools/compute-sanitizer <<'TOOL'
echo "========= ERROR SUMMARY: 3 errors"
exit 9
TOOL
check 1 --no-build
says '^short cuda: compute-sanitizer, memcheck: ERROR SUMMARY: 3 errors'
# What takes too long is not done in its time, also where it has to be killed; what somebody else kills is short.
tool tools/timeout <<'TOOL'
[ "$1 $2 $3" = "-v -k 5" ] || { echo "timeout is told: $*"; exit 125; }
shift 4
case "$1" in
  *compute-sanitizer) exec /usr/bin/timeout -v -k 0.2 0.2 "$@" ;;
  *) exec "$@" ;;
esac
TOOL
tool tools/compute-sanitizer <<'TOOL'
trap '' TERM
while :; do sleep 0.05; done
TOOL
check 0 --no-build
says '^none cuda: compute-sanitizer, memcheck: not done in its time'
tool tools/compute-sanitizer <<<'kill -9 $$'
check 1 --no-build
says '^short cuda: compute-sanitizer, memcheck: '
rm "$work/tools/timeout"
tool tools/compute-sanitizer <<<'true'
tool bin/lethe-bench <<<'echo "cuda: no memory"; exit 1'
check 1 --no-build
says '^short batched-backends: cuda: no memory'
tool bin/lethe-bench <<<'echo "short batched, cuda, fp32: slow (bar fast)" >"$3"'
check 1 --no-build
says '^gpu-check: 3 short'
tool bin/cuda_probe <<<'echo "a small batch: wrong"; exit 1'
check 1 --no-build
says '^short cuda: a small batch on the device'
tool bin/cuda_probe <<<'echo "no CUDA device: driver too old"'
check 0 --no-build
says '^none gpu-check: no CUDA device: driver too old'
tool tools/cmake <<<'echo "no compiler"; exit 1'
check 2
says 'gpu-check: cmake failed: no compiler'
echo "gpu-check: without a device, dry, and with one that answers well and badly"
