#!/usr/bin/env bash
# build_variants.sh ROOT DIGESTS WORK [short|full]: the same bits everywhere (docs/math.md, section 5).
# Builds lethe-digests with other compilers, optimisations and instruction sets in trees under WORK, runs
# each, also with glibc made to choose its plain versions, and demands the digests that DIGESTS, the
# program of the build at hand, prints. LETHE_VARIANTS=full is the same as `full`: every combination, and
# more seeds. Without clang++ only g++ is compared. Prints a line a variant; exits 1 on any difference.
set -euo pipefail
root=$(cd "$1" && pwd) digests=$2 work=$3 extent=${4:-${LETHE_VARIANTS:-short}}
vectors=$root/tests/golden/svdd.json
case "$extent" in
  short) rounds=8 ;;
  full) rounds=100 ;;
  *) echo "build_variants.sh: no such extent: $extent"; exit 2 ;;
esac
mkdir -p "$work"
# A precompiled header would otherwise keep ccache from finding what it knows.
export CCACHE_SLOPPINESS=pch_defines,time_macros
unset CFLAGS CXXFLAGS LDFLAGS GLIBC_TUNABLES

status=0
variants=0
# compare NAME PROGRAM [ENVIRONMENT]: the program's digests must be those at hand.
compare() {
  local name=$1 program=$2 environment=${3:-LC_ALL=C} out
  out=$work/$(echo "$name" | tr -c 'a-zA-Z0-9\n' _).txt
  variants=$((variants + 1))
  if ! env "$environment" "$program" "$vectors" "$rounds" >"$out"; then
    echo "FAILED $name: the program ended with an error"
    status=1
  elif ! cmp -s "$work/expected.txt" "$out"; then
    echo "FAILED $name: other bits, first in"
    { diff "$work/expected.txt" "$out" || true; } | grep '^[<>]' | head -6
    status=1
  else
    echo "same   $name"
  fi
}

"$digests" "$vectors" "$rounds" >"$work/expected.txt"
lines=$(wc -l <"$work/expected.txt")
[ "$lines" -gt 50 ] || { echo "only $lines digests: too few to show anything"; exit 1; }

# Names are those of glibc 2.33 and later. An override that does not reach libm would show nothing, so its
# exp must change; without FMA in the processor glibc chooses the plain versions by itself.
plain_libm=GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F,-ERMS
if grep -qw fma /proc/cpuinfo; then
  if [ "$("$digests" --libm)" = "$(env "$plain_libm" "$digests" --libm)" ]; then
    echo "FAILED: GLIBC_TUNABLES does not change libm's exp"
    status=1
  fi
else
  echo "note: no FMA here, libm's plain versions are the only ones"
fi
compare "the build at hand, plain libm" "$digests" "$plain_libm"

# tree COMPILER OPTIMISATION MARCH: builds it, runs it. Without warnings, which are the whole build's
# business: other optimisations guess at others.
tree() {
  local compiler=$1 optimisation=$2 march=$3 folder name
  name="$compiler $optimisation ${march:-x86-64}"
  folder=$work/$(echo "$name" | tr -c 'a-zA-Z0-9\n' _)
  if ! { cmake -G Ninja -S "$root/tests/variants/project" -B "$folder" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS_RELEASE="$optimisation -w" -DLETHE_MARCH="$march" &&
    cmake --build "$folder" --parallel 2 --target lethe-digests; } >"$folder.log" 2>&1; then
    tail -n 30 "$folder.log"
    echo "FAILED $name: does not build"
    status=1
    return
  fi
  compare "$name" "$folder/bin/lethe-digests"
  [ "$extent" = short ] || compare "$name, plain libm" "$folder/bin/lethe-digests" "$plain_libm"
}

if [ "$extent" = full ]; then
  compilers=(g++)
  ! command -v clang++ >/dev/null || compilers+=(clang++)
  for compiler in "${compilers[@]}"; do
    for optimisation in -O1 -O2 -O3; do
      for march in x86-64-v3 ""; do tree "$compiler" "$optimisation" "$march"; done
    done
  done
else
  tree g++ -O1 x86-64-v3
  tree g++ -O3 ""
  ! command -v clang++ >/dev/null || tree clang++ -O3 x86-64-v3
fi
command -v clang++ >/dev/null || echo "note: no clang++ here, only g++ was compared"

[ "$status" -ne 0 ] || echo "variants: $variants, $lines digests each, all equal"
exit "$status"
