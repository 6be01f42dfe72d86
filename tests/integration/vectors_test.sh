#!/usr/bin/env bash
# vectors_test.sh BIN: `lethe solve` on the 60-digit vectors, judged by a program that shares no code with
# the solver. Then the judge is judged: it must refuse a weight that is off by one bit, a wrong letter of a
# partition, and a case left out.
set -euo pipefail
bin=$1
truth=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/golden/svdd.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$bin/lethe" solve --vectors "$truth" >"$work/answers"
"$bin/judge_vectors" "$truth" <"$work/answers"

# refused SED_SCRIPT: the answers changed so must not pass.
refused() {
  sed "$1" "$work/answers" >"$work/changed"
  ! cmp -s "$work/answers" "$work/changed" || { echo "the change had no effect: $1"; exit 1; }
  if "$bin/judge_vectors" "$truth" <"$work/changed" >"$work/out" 2>&1; then
    echo "the judge passed a wrong answer: $1"
    exit 1
  fi
  grep -q '^wrong: ' "$work/out"
}
refused '1s/\(0x1\.[0-9a-f]*\)[0-7]p/\18p/'
refused '1s/"partition": *"S/"partition":"R/'
refused '2d'
refused '1s/"equal_bits_to_refit": *true/"equal_bits_to_refit":false/'
echo "the judge refused each of 4 wrong answers"
