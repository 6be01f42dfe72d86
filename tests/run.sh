#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. Stops at the first step that fails.
#
#   bash tests/run.sh [--preset NAME] [--filter REGEX]
#
#   --preset NAME    a preset of CMakePresets.json but fuzz (default: release)
#   --filter REGEX   only the tests whose name matches
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release
filter=()
usage() { sed -n '4,7s/^# \{0,1\}//p' tests/run.sh >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) [ $# -ge 2 ] || usage; preset=$2; shift 2 ;;
    --filter) [ $# -ge 2 ] || usage; filter=(-R "$2"); shift 2 ;;
    *) usage ;;
  esac
done

step() { printf '\n== %s\n' "$*"; }

step "dependencies"
case "$preset" in
  release-clang | tsan) bash cmake/install-dependencies.sh --clang ;;
  *) bash cmake/install-dependencies.sh ;;
esac

step "configure (preset $preset)"
cmake --preset "$preset"

step "build"
NINJA_STATUS='[%f/%t %es] ' cmake --build --preset "$preset" --parallel "$(nproc)"

step "test"
log=build/$preset/tests.log
ctest --preset "$preset" --parallel 2 --no-tests=error "${filter[@]}" | tee "$log"

passed=$(sed -n 's/^100% tests passed, 0 tests failed out of \([0-9]*\)$/\1/p' "$log")
printf '\nOK: built and tested with preset %s: %s tests passed, none failed, in %d s.\n' \
  "$preset" "$passed" "$SECONDS"
