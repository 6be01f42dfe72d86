#!/usr/bin/env bash
# older_store_test.sh BIN: the present programs on stores that older releases wrote (tests/golden/stores, a file a
# format; make.sh there made them). Digests, logs and answers are what they were, erasures and holds stand, the file
# keeps its format until something needs the next one, and a backup of that time comes back without who was erased.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh" "$1"
digest() { lethe memory describe "${1#*/}" -t "${1%/*}" -o json | field state_digest; }
fact() { sed -n "s|^$1 ||p" store/facts; }
# What stands in the file itself: of a database that is closed, and may not be one that sqlite3 here knows.
format() { od -An -tu1 -j 60 -N 4 "store/data/tenants/$1/tenant.db" | awk '{ print (($1 * 256 + $2) * 256 + $3) * 256 + $4 }'; }
start() { lethed_start "$work/store/data" --vault "$work/store/vault" --ballast 0 --origin lethe.example; }
verified() { # TENANT: its whole log, with the key that was pinned then
  rm -rf export
  status 0 lethe export "$1" --to export
  status 0 "$bin/lethe-verify" export export --key "$(fact "key $1")"
}

mkdir store
tar -C store --no-same-owner -pxzf "$root/tests/golden/stores/format-4.tar.gz"
chmod 700 store
status 0 lethe backup verify store/backup --key "$(fact "key clinic")" --key "$(fact "key lab")"
status 0 lethe doctor --data store/data --vault store/vault --offline
said "2 of format 4"
equal "formats" "$(format clinic) $(format lab)" "4 4"
start
for memory in clinic/visits clinic/near lab/visits; do
  equal "the state of $memory" "$(digest "$memory")" "$(fact "digest $memory")"
  status 0 lethe verify "${memory%/*}" "${memory#*/}"
  said "bit-identical"
done
# Verify has put one for each memory into the log.
equal "the log of clinic" "$(lethe tenant get clinic -o json | field certificate_count)" "$(($(fact "certificates clinic") + 2))"
equal "the log of lab" "$(lethe tenant get lab -o json | field certificate_count)" "$(($(fact "certificates lab") + 1))"
verified clinic
verified lab
# What was answered then is answered now; who was erased stays so, and who is held too.
status 0 lethe forget -t clinic -m visits --subject subject-3 --yes --request-id ticket-3 -o json
equal "the certificate of ticket-3" "$(field certificate_id <said)" "$(field certificate_id <store/forgotten.json)"
status 0 lethe erasure status -t clinic "$(fact request)"
said "completed"
status 0 lethe forget -t clinic -m visits --subject subject-12 --yes
said "held            2"
said "erased          0"
status 0 lethe query -t clinic -m visits --key 0.3,4.5
# Written to, the file is still one of the format before: the release before can go on with it.
printf '{"id":"visit-60","subject":"subject-30","key":[0.5,0.25],"value":[3]}\n' >new.ndjson
status 0 lethe insert -t clinic -m visits -f new.ndjson
status 0 lethe forget -t clinic -m visits --subject subject-30 --yes
equal "the state, as before the insert" "$(digest clinic/visits)" "$(fact "digest clinic/visits")"
lethed_stop || fail "lethed did not end by itself with status 0"
equal "formats" "$(format clinic) $(format lab)" "4 4"

# The first memory that needs the next format raises that of its tenant alone.
start
status 0 lethe memory create deep -t clinic --encoder store/encoder.bin --capacity 3
status 0 lethe insert -t clinic -m deep -f new.ndjson
equal "the state beside it" "$(digest clinic/visits)" "$(fact "digest clinic/visits")"
lethed_stop || fail "lethed did not end by itself with status 0"
equal "formats" "$(format clinic) $(format lab)" "5 4"
status 0 lethe doctor --data store/data --vault store/vault --offline
said "1 of format 4, 1 of format 5"
start
equal "the state, opened again" "$(digest clinic/visits)" "$(fact "digest clinic/visits")"

# The backup of that time, from before the erasures: two visits of one subject, four of another in two memories, one
# that was edited; and one more of that subject, which was sealed anew.
status 0 lethe backup restore store/backup/clinic --replace
said "tokens taken out again       7"
said "tokens lost with their keys  1"
status 0 lethe memory list -t clinic -o jsonl
equal "memories" "$(grep -c '"name"' said)" 2
for memory in visits near; do
  status 0 lethe verify clinic "$memory"
  said "bit-identical"
  for subject in 3 17; do
    status 0 lethe forget -t clinic -m "$memory" --subject "subject-$subject" --dry-run
    said "would erase      0"
  done
done
verified clinic
lethed_stop || fail "lethed did not end by itself with status 0"
equal "formats" "$(format clinic) $(format lab)" "4 4"
echo "older stores: $checks checks hold"
