#!/usr/bin/env bash
# erasure.sh [--full]: shows what is claimed of erasing, from the built tree. A line a claim:
#
#   ok|short CLAIM: FIGURE (bar BAR)
#
# and exit status 1 when any is short. Needs build/release (tests/run.sh), sqlite3 (for the control), and a
# quiet machine with a disk under TMPDIR: times are among the claims.
#
#   default   200 rounds of the search for traces, a sample of the faults, 300 tenants
#   --full    every fault at every position, a soak of 10 minutes, 2,000 tenants
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
usage() { sed -n '2,10s/^# \{0,1\}//p' tests/show/erasure.sh >&2; exit 2; }
full= tenants=300
case "${1:-}" in
  "") ;;
  --full) full=yes tenants=2000 ;;
  *) usage ;;
esac
rounds=${LETHE_ROUNDS:-200}
seed=${LETHE_SEED:-$RANDOM}

bin=${LETHE_BIN:-$root/build/release/bin}
source deploy/lib/lethed.sh
for program in lethe lethed lethe-verify lethe-bench neighbours many_tenants kill_stream tenant_fault_test tenant_kill_test; do
  [ -x "$bin/$program" ] || { echo "erasure: no $bin/$program; run tests/run.sh first" >&2; exit 2; }
done
command -v sqlite3 >/dev/null || { echo "erasure: needs sqlite3" >&2; exit 2; }
work=$(mktemp -d)
trap 'lethed_kill; rm -rf "$work"' EXIT

source tests/show/claims.sh
holds() { "$@" && echo 0 || echo 1; }

# --- No trace. A round inserts a few tokens whose id, subject, payload, label, key and value occur nowhere else,
# asks with their keys, takes them out in one of four ways, and searches everything that the server, the client and
# the exports have left behind. The control puts the same rows into plain SQLite, deletes them there and
# searches that with the same program.
RANDOM=$seed
places=("$work/data" "$work/data.log" "$work/exports" "$work/tmp")
mkdir "$work/exports" "$work/tmp" "$work/plain"
export TMPDIR=$work/tmp LETHE_TENANT=clinic
# canary ROUND ROW BYTES: a token as a line of JSON.
canary() {
  awk -v seed="$seed" -v round="$1" -v row="$2" -v bytes="$3" -v numbers="${dimension[$4]}" 'BEGIN {
    srand(seed % 1000 * 100003 + round * 101 + row)  # below 2^31, where some awks stop telling seeds apart
    hex = "0123456789abcdef"
    for (i = 0; i < 24; i++) tag = tag substr(hex, int(rand() * 16) + 1, 1)
    for (i = 0; i < numbers; i++) key = key (i ? "," : "") sprintf("%.17g", rand() * 2 - 1)
    for (i = 0; i < 4; i++) value = value (i ? "," : "") sprintf("%.17g", rand() * 2 - 1)
    for (i = 0; i < bytes; i++) text = text substr(hex, int(rand() * 16) + 1, 1)
    printf "{\"id\":\"id-%s\",\"subject\":\"person-%s-%s\",\"payload\":\"note-%s%s\",\"key\":[%s],\"value\":[%s]}\n",
      tag, seed, round, tag, text, key, value
  }'
}
dimension=(4 16 64)
sizes=(0 60 300 1500 4000 9000 30000 60000)
lethed_start "$work/data"
lethe() { "$bin/lethe" "$@"; }
lethe tenant create clinic >/dev/null
key=$(lethe tenant get clinic -o json | sed -nE 's/.*"verification_key": ?"([^"]*)".*/\1/p')
memory() { # NAME KIND
  lethe memory create "$1" --gamma 0.5 --capacity 8 --key-dimension "${dimension[$2]}" --value-dimension 4 >/dev/null
}
for kind in 0 1 2; do memory "m$kind" "$kind"; done
seen_before=0 hits=0 controls=0 plain=0 failed=0 searched=0
SECONDS=0
for ((round = 0; round < rounds; round++)); do
  kind=$((RANDOM % 3)) way=$((round % 5)) bytes=${sizes[RANDOM % ${#sizes[@]}]} name=m$kind
  rows=$((1 + RANDOM % 4))
  [ "$way" -ne 3 ] || { name=gone$round; memory "$name" "$kind"; }
  for ((row = 0; row < rows; row++)); do canary "$round" "$row" "$bytes" "$kind"; done >"$work/erased.ndjson"
  # Others, who stay; some of them share the subject's rows' pages.
  for ((row = 100; row < 103; row++)); do canary "$((round + 100000))" "$row" "$bytes" "$kind"; done >"$work/staying.ndjson"
  cat "$work/erased.ndjson" "$work/staying.ndjson" | lethe insert -q -m "$name" -f - --format ndjson >/dev/null
  keys=$(head -n 1 "$work/erased.ndjson" | sed -E 's/.*"key":\[([^]]*)\].*/\1/')
  lethe query -m "$name" --key="$keys" >/dev/null || failed=$((failed + 1))
  # Nothing of it was ever written in clear.
  "$bin/lethe-verify" residue "${places[@]}" --live --tokens "$work/erased.ndjson" >"$work/said" 2>&1 ||
    seen_before=$((seen_before + 1))
  case $way in
    0) lethe forget -m "$name" --subject "person-$seed-$round" --yes >/dev/null || failed=$((failed + 1)) ;;
    1) mapfile -t ids < <(sed -E 's/.*"id":"([^"]*)".*/--id=\1/' "$work/erased.ndjson")
       lethe forget -m "$name" "${ids[@]}" --yes >/dev/null || failed=$((failed + 1)) ;;
    2) sed -E 's/"subject":"[^"]*",//; s/"payload":"[^"]*",//; s/"key":\[[^]]*\]/"key":['"$(awk -v n="${dimension[$kind]}" \
         'BEGIN { for (i = 0; i < n; i++) printf "%s%d", i ? "," : "", i % 3 }')"']/; s/"value":\[[^]]*\]/"value":[0,1,0,1]/' \
         "$work/erased.ndjson" >"$work/corrected.ndjson"
       lethe edit -m "$name" --file "$work/corrected.ndjson" --yes >/dev/null || failed=$((failed + 1)) ;;
    3) lethe memory delete "$name" --yes >/dev/null || failed=$((failed + 1)) ;;
    4) # A kill in the middle: what the client did not hear of is asked for again.
       (lethe forget -m "$name" --subject "person-$seed-$round" --yes --request-id "r$round" >/dev/null 2>&1 || true) &
       asking=$!
       sleep "0.0$((RANDOM % 10))"
       lethed_kill
       wait $asking || true
       lethed_start "$work/data"
       lethe forget -m "$name" --subject "person-$seed-$round" --yes --request-id "r$round" >/dev/null || failed=$((failed + 1)) ;;
  esac
  if [ $((round % 10)) -eq 9 ]; then
    rm -rf "$work/exports/"*
    lethe export clinic --to "$work/exports/export" >/dev/null 2>&1 || failed=$((failed + 1))
  fi
  got=0
  "$bin/lethe-verify" residue "${places[@]}" --live --tokens "$work/erased.ndjson" --control "$work/erased.ndjson" \
    >"$work/said" 2>&1 || got=$?
  case $got in
    0) controls=$((controls + 1)) ;;
    8) hits=$((hits + 1)); head -n 5 "$work/said" >&2 ;;
    *) failed=$((failed + 1)); tail -n 3 "$work/said" >&2 ;;
  esac
  searched=$((searched + 1))
  # The control: the same rows in plain SQLite, deleted.
  {
    [ -e "$work/plain/plain.db" ] || echo "PRAGMA journal_mode=WAL; CREATE TABLE tokens (id TEXT PRIMARY KEY, body TEXT);"
    echo "BEGIN;"
    cat "$work/erased.ndjson" "$work/staying.ndjson" |
      sed -E "s/^\{\"id\":\"([^\"]*)\"(.*)$/INSERT INTO tokens VALUES ('\1', '{\"id\":\"\1\"\2');/"
    echo "COMMIT; BEGIN;"
    sed -E "s/^\{\"id\":\"([^\"]*)\".*$/DELETE FROM tokens WHERE id = '\1';/" "$work/erased.ndjson"
    echo "COMMIT;"
  } | sqlite3 "$work/plain/plain.db" >/dev/null
  got=0
  "$bin/lethe-verify" residue "$work/plain" --tokens "$work/erased.ndjson" >"$work/said" 2>&1 || got=$?
  [ "$got" -ne 8 ] || plain=$((plain + 1))
done
lethe export clinic --to "$work/last" >/dev/null 2>&1 || failed=$((failed + 1))
lethed_stop || failed=$((failed + 1))
for ((round = 0; round < rounds; round++)); do
  for ((row = 0; row < 4; row++)); do canary "$round" "$row" 60 0; done
done | sed -nE 's/.*"id":"([^"]*)","subject":"([^"]*)".*/\1\n\2/p' | sort -u >"$work/texts"
at_end=0
"$bin/lethe-verify" residue "${places[@]}" "$work/last" --texts-file "$work/texts" >"$work/said" 2>&1 || at_end=1
all="$rounds of $rounds"
claim "$(holds test "$failed" -eq 0)" "no trace: every round finished" "$((searched - failed)) of $rounds, seed $seed, $SECONDS s" "all"
claim "$(holds test "$hits" -eq 0)" "no trace: rounds in which something was found after the erasure" "$hits" "0"
claim "$(holds test "$controls" -eq "$rounds")" "no trace: the search finds the same tokens in a control file" "$controls of $rounds" "$all"
claim "$(holds test "$plain" -gt 0)" "no trace: the search finds rows that plain SQLite deleted" "$plain of $rounds" "more than 0"
claim "$(holds test "$seen_before" -eq 0)" "no trace: rounds in which something stood in clear before the erasure" "$seen_before" "0"
claim "$at_end" "no trace: ids and subjects of all rounds after an orderly stop" "$(head -n 1 "$work/said")" "nothing found"
holds=0
"$bin/lethe-verify" export "$work/last" --key "$key" >"$work/said" 2>&1 || holds=1
claim $holds "no trace: the log of all rounds, verified offline" "$(grep -m 1 -i -E 'pending|certificates' "$work/said" || head -n 1 "$work/said")" "verified"
unset TMPDIR

# --- Faults at every I/O, kills at every call, and random kills of a server.
# total WORD FILE: the numbers before WORD, added.
total() { grep -oE "[0-9]+ $1" "$2" | awk '{ s += $1 } END { print s + 0 }'; }
for test in tenant_fault_test tenant_kill_test; do
  what=struck
  [ "$test" = tenant_fault_test ] || what=kills
  SECONDS=0 holds=0
  LETHE_FAULTS=${full:+all} LETHE_TEST_SEED=$seed "$bin/$test" >"$work/faults" 2>&1 || holds=1
  [ "$(total "$what" "$work/faults")" -gt 0 ] && [ "$(total violations "$work/faults")" -eq 0 ] || holds=1
  claim $holds "$test: rules violated after any of them" \
    "$(total violations "$work/faults") after $(total "$what" "$work/faults") $what, $SECONDS s" "0"
done
if [ -n "$full" ]; then
  mkdir "$work/soak"
  holds=0
  "$bin/kill_stream" "$bin/lethed" "$work/soak" --minutes 10 --seed "$seed" >"$work/figures" 2>&1 || holds=1
  claim $holds "soak of 10 minutes with random kills" "$(tr '\n' ' ' <"$work/figures" | cut -c1-300)" "all rules hold"
fi

# --- A restore brings nobody back.
holds=0
bash tests/integration/backup_test.sh "$bin" >"$work/said" 2>&1 || holds=1
claim $holds "backup, forget, lost data, restore: gone, the log says restored, the state is that of a server that never saw them" \
  "$(tail -n 1 "$work/said")" "every check holds"

# --- Costs.
bench() { # NAME [FLAG...]
  local name=$1
  shift
  rm -f "$work/claims"
  "$bin/lethe-bench" "$name" --claims "$work/claims" "$@" >"$work/bench" 2>"$work/err" || true
  if [ -s "$work/claims" ]; then
    cat "$work/claims"
    short=$((short + $(grep -c '^short ' "$work/claims" || true)))
  else
    claim 1 "$name" "$(tail -n 1 "$work/err")" "measured"
  fi
}
bench durable-inserts
bench batch-forget
"$bin/lethe-bench" cold-start | sed 's/^/   /'

"$bin/neighbours" "$bin/lethed" "$work/neighbours" >"$work/figures" || true
claim "$(holds at_most "$(value ratio_p99 "$work/figures")" 1.5)" \
  "p99 of one tenant's queries while another forgets $(value forgotten "$work/figures") tokens" \
  "$(value busy_p99_us "$work/figures") us, $(value ratio_p99 "$work/figures") times quiet in the median turn, $(value least_ratio "$work/figures") to $(value largest_ratio "$work/figures") ($(value busy_queries "$work/figures") queries in $(value forget_seconds "$work/figures") s)" \
  "at most 1.5 times"

"$bin/many_tenants" "$work/many" "$tenants" >"$work/figures" || true
claim "$(holds at_most "$(value all_resident_mib "$work/figures")" 4096)" \
  "$tenants tenants of 300 tokens, all open" "$(value all_resident_mib "$work/figures") MiB resident" "at most 4096"
claim "$(holds test "$(value equal_digests "$work/figures")" = 20/20)" \
  "digests after unloading and loading again, equal" "$(value equal_digests "$work/figures")" "all"
sed 's/^/   /' "$work/figures"

echo "erasure: $short short"
[ "$short" -eq 0 ]
