#!/usr/bin/env bash
# main-job.sh [--full]: shows what the first version claims, from the built tree. A line a claim:
#
#   ok|short CLAIM: FIGURE (bar BAR)
#
# and exit status 1 when any is short. Needs build/release (tests/run.sh); uses build/release-clang as well
# where it is there. The hours of intensive care are read from the file that LETHE_ICU_CSV names: set-a of the
# PhysioNet/CinC Challenge 2012 as a CSV, a row an hour (icu_hours.awk); the project does not need them.
#
#   default   kills a server 10 times during a stream and 5 times during a forget
#   --full    50 and 25 times; also installs clang++ and builds with it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
case "${1:-}" in
  "") full= kills=15 ;;
  --full) full=yes kills=75 ;;
  *) sed -n '2,11s/^# \{0,1\}//p' tests/show/main-job.sh >&2; exit 2 ;;
esac

bin=$root/build/release/bin
source deploy/lib/lethed.sh
for program in lethe lethed lethe-verify judge_vectors kill_stream; do
  [ -x "$bin/$program" ] || { echo "main-job: no $bin/$program; run tests/run.sh first" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'lethed_kill; rm -rf "$work"' EXIT

source tests/show/claims.sh
# All of "n/m", and of something.
whole() { [ -n "$1" ] && [ "${1%/*}" = "${1#*/}" ] && [ "${1#*/}" -gt 0 ]; }
field() { sed -nE 's/.*"'"$1"'": ?"?([^",}]*)"?.*/\1/p' | head -n 1; }

# The 60-digit answers, by the build in FOLDER, made with COMPILER.
vectors() {
  local folder=$1 compiler=$2 figures=$work/vectors name holds
  "$folder/bin/lethe" solve --vectors tests/golden/svdd.json >"$work/answers" || true
  "$bin/judge_vectors" tests/golden/svdd.json <"$work/answers" >"$figures" || true
  for name in partitions weights equal_bits readouts; do
    holds=0
    whole "$(value $name "$figures")" || holds=1
    case "$name" in
      partitions) claim $holds "vectors, $compiler: partitions equal" "$(value $name "$figures")" "all" ;;
      weights) claim $holds "vectors, $compiler: weights are the truth rounded to nearest" \
        "$(value $name "$figures")" "all, 0 ulp" ;;
      equal_bits) claim $holds "vectors, $compiler: deleting gives the bits of a refit" \
        "$(value $name "$figures")" "all" ;;
      readouts) claim $holds "vectors, $compiler: readouts and decisions within 1e-13" \
        "$(value $name "$figures"), worst $(value worst_readout "$figures")" "all" ;;
    esac
  done
  holds=0
  [ "$(value wrong "$figures")" = 0 ] || holds=1
  claim $holds "vectors, $compiler: answered $(value cases "$figures") cases, faults" \
    "$(value wrong "$figures")" "0"
  printf '   states decided: %s by definition, %s by 106 bits, higher rungs: %s; methods: %s\n' \
    "$(value rung_0 "$figures")" "$(value rung_106 "$figures")" \
    "$(sed -nE 's/^rung_([0-9]+)=(.*)/\2 by \1 bits/p' "$figures" | grep -vE ' by (0|106) bits' | paste -sd, - | sed 's/^$/none/')" \
    "$(sed -nE 's/^method_([a-z]+)=(.*)/\2 \1/p' "$figures" | paste -sd, -)"
}

vectors build/release g++
if [ -n "$full" ]; then
  { bash cmake/install-dependencies.sh --clang && cmake --preset release-clang &&
    cmake --build --preset release-clang --parallel "$(nproc)" --target lethe; } >"$work/clang.log" 2>&1 ||
    tail -n 20 "$work/clang.log"
fi
if [ -x build/release-clang/bin/lethe ]; then
  vectors build/release-clang clang++
  for build in release release-clang; do
    build/$build/bin/lethe solve --vectors tests/golden/svdd.json >"$work/$build.answers" || true
  done
  cmp -s "$work/release.answers" "$work/release-clang.answers" && holds=0 || holds=1
  claim $holds "vectors: both compilers' builds print the same bytes" \
    "$([ $holds -eq 0 ] && echo same || echo different)" "same"
elif [ -n "$full" ]; then
  claim 1 "vectors, clang++" "not built" "built"
else
  echo "   vectors, clang++: build/release-clang is not there; --full builds it"
fi

# Hours of intensive care.
icu=${LETHE_ICU_CSV:-$(compgen -G "$root/../*/data/icu2012/set-a.csv" | head -n 1 || true)}
if [ ! -r "$icu" ]; then
  claim 1 "intensive care: forgetting 100 patients equals never having seen them" "LETHE_ICU_CSV names no file that can be read" "equal"
  claim 1 "kill -9 during a stream" "LETHE_ICU_CSV names no file that can be read" "nothing lost"
  echo "main-job: $short short"
  exit 1
fi
awk -v want=10000 -f tests/show/icu_hours.awk "$icu" "$icu" >"$work/hours.csv"
hours=$(($(wc -l <"$work/hours.csv") - 1))
# A hundred patients spread over the whole stream, forgotten in an order that is not the stream's.
cut -d, -f2 "$work/hours.csv" | tail -n +2 | awk '!seen[$0]++' >"$work/patients"
awk 'FNR % 2 == 0 && n < 100 { n++; print (n * 37) % 101, $0 }' "$work/patients" | sort -n | cut -d' ' -f2 \
  >"$work/forgotten"
awk -F, 'NR == FNR { gone[$1]; next } !($2 in gone)' "$work/forgotten" "$work/hours.csv" >"$work/rest.csv"

export LETHE_TENANT=icu LETHE_MEMORY=hours
create() {
  "$bin/lethe" tenant create icu >/dev/null
  "$bin/lethe" memory create hours --kernel rbf --gamma 0.14285714285714285 --capacity 100 \
    --key-dimension 7 --value-dimension 2 >/dev/null
}
insert() {
  "$bin/lethe" insert --file "$1" --id-column id --subject-column subject \
    --key-columns key.0,key.1,key.2,key.3,key.4,key.5,key.6 --value-columns value.0,value.1 -o json
}
describe() { "$bin/lethe" memory describe -o jsonl; }
partition() { sed -nE 's/.*"margin":([0-9]+),"error":([0-9]+),"reserve":([0-9]+).*/\1 margin, \2 error, \3 reserve/p'; }

lethed_start "$work/all"
create
insert "$work/hours.csv" >"$work/inserted"
holds=0
[ "$hours" -eq 10000 ] && [ "$(field inserted <"$work/inserted")" = 10000 ] || holds=1
claim $holds "intensive care: hours streamed through the running server" \
  "$(field inserted <"$work/inserted") in $(field seconds <"$work/inserted") s" "10000"
echo "   $(describe | partition); digest $(describe | field state_digest)"

begin=$(date +%s%N)
certificates=0
verdicts=0
erased=0
while read -r patient; do
  "$bin/lethe" forget --subject "$patient" --yes -o json >"$work/answer"
  [ -z "$(field certificate_id <"$work/answer")" ] || certificates=$((certificates + 1))
  case "$(field verdict <"$work/answer")" in proven | bit-identical) verdicts=$((verdicts + 1)) ;; esac
  erased=$((erased + $(field erased <"$work/answer")))
done <"$work/forgotten"
milliseconds=$((($(date +%s%N) - begin) / 1000000))
holds=0
[ "$certificates" -eq 100 ] && [ "$verdicts" -eq 100 ] || holds=1
claim $holds "intensive care: patients forgotten one after another, certified and proven" \
  "$certificates and $verdicts ($erased hours, $milliseconds ms in all)" "100 and 100"
churned=$(describe)
echo "   $(partition <<<"$churned"); climbs $(field climbs <<<"$churned"), fallbacks $(field fallbacks <<<"$churned")"

key=$("$bin/lethe" tenant get -o json | field verification_key)
"$bin/lethe" export --to "$work/certificates.tar" >/dev/null
lethed_stop
"$bin/lethe-verify" export "$work/certificates.tar" --key "$key" -q >"$work/verified" &&
  holds=0 || holds=1
claim $holds "intensive care: the chain of certificates verifies offline" \
  "$(head -n 1 "$work/verified")" "200 certificates: each erasure and the end of its keys"

begin=$(date +%s%N)
lethed_start "$work/all"
milliseconds=$((($(date +%s%N) - begin) / 1000000))
restarted=$(describe | field state_digest)
lethed_stop
holds=0
[ -n "$restarted" ] && [ "$restarted" = "$(field state_digest <<<"$churned")" ] || holds=1
claim $holds "intensive care: digest after a restart ($milliseconds ms)" "${restarted:0:16}..." "equal to before"

lethed_start "$work/fresh"
create
insert "$work/rest.csv" >/dev/null
fresh=$(describe | field state_digest)
lethed_stop
holds=0
[ -n "$fresh" ] && [ "$fresh" = "$(field state_digest <<<"$churned")" ] || holds=1
claim $holds "intensive care: digest of a fresh server fed with the rest only" "${fresh:0:16}..." \
  "equal to that after forgetting, $(field state_digest <<<"$churned" | cut -c1-16)..."

# Kills.
mkdir "$work/kills"
"$bin/kill_stream" "$bin/lethed" "$work/kills" "$kills" "${LETHE_TEST_SEED:-$RANDOM}" "$work/hours.csv" \
  >"$work/killed" 2>"$work/killed.err" && holds=0 || holds=1
cat "$work/killed.err"
[ "$(value kills "$work/killed")" = "$kills" ] || holds=1
claim $holds "kill -9 during a stream $(value kills_during_stream "$work/killed") times, during a forget $(value kills_during_forget "$work/killed") times: acknowledged tokens lost" \
  "$(value lost "$work/killed") of $(value acknowledged "$work/killed"), $(value kills_with_unacknowledged "$work/killed") kills met work in progress" "0"
equal=$(value digests_equal "$work/killed")
whole "$equal" || holds=1
claim $holds "kill -9: digests equal to a server that was never killed" "$equal" "all"
echo "   seed $(value seed "$work/killed")"

echo "main-job: $short short"
[ "$short" -eq 0 ]
