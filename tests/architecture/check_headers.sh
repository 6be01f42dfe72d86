#!/usr/bin/env bash
# check_headers.sh ROOT GENERATED COMPILER: every header compiles on its own, so that no file depends on
# the order of its includes. A header that its .cc includes first was proven by the build; the rest are
# compiled here. Prints the compiler's words for each that does not; exits 1 on any.
set -euo pipefail
root=$1 generated=$2 compiler=$3
cd "$root"

proven=0
rest=()
headers=$(find core audit store server client worker -name '*.h' | sort)
[ -n "$headers" ] || { echo "no headers found"; exit 1; }
while IFS= read -r header; do
  source=${header%.h}.cc
  if [ -f "$source" ] && [ "$(grep -m1 '^#include' "$source")" = "#include \"$header\"" ]; then
    proven=$((proven + 1))
  else
    rest+=("$header")
  fi
done <<<"$headers"
[ ${#rest[@]} -eq 0 ] || printf '%s\n' "${rest[@]}" | xargs -P 2 -n 3 -- \
  "$compiler" -std=c++20 -fsyntax-only -x c++ -I . -isystem "$generated"
echo "headers: $proven proven by the build, ${#rest[@]} compile on their own"
