#!/usr/bin/env bash
# verifier_test.sh BIN: what the tenant and a witness do with the real programs: the state solved again from
# the tenant's own tokens, the receipt of an erasure, and a witness that follows the log, refuses a shrunk
# one and keeps its promise over a rotation of the key.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh" "$1"
verify() { "$bin/lethe-verify" "$@"; }

export LETHE_TENANT=clinic LETHE_MEMORY=visits
awk 'BEGIN { seed = 7; for (i = 0; i < 120; i++) {
  for (k = 0; k < 2; k++) { seed = (seed * 16807) % 2147483647; x[k] = seed / 2147483647 }
  printf "{\"id\":\"v-%d\",\"subject\":\"p-%d\",\"key\":[%.6f,%.6f],\"value\":[%.3f],\"labels\":{\"w\":\"%d\"}}\n",
    i, i % 10, x[0], x[1], x[0] * x[1], i % 3 } }' >all.ndjson
grep -v '"subject":"p-3"' all.ndjson >kept.ndjson

status 0 "$bin/lethe" witness key witness.example/w --out witness.pem
witness=$(cat said)
lethed_start "$work/data" --witness "$witness"
lethe tenant create >/dev/null
lethe memory create --gamma 2 --capacity 8 --key-dimension 2 --value-dimension 1 >/dev/null
lethe insert -q -f all.ndjson >/dev/null
key=$(lethe tenant get -o json | field verification_key)
config=(--gamma 2 --capacity 8)
digest() { lethe memory describe -o json | field state_digest; }

# The state, solved again here.
status 0 "$bin/lethe-verify" state --tokens all.ndjson "${config[@]}" --digest "$(digest)"
said "VERIFIED  120 tokens"
lethe forget --subject p-3 --yes --request-id ticket-1 -o json >answer.json
id=$(field certificate_id <answer.json)
lethe export clinic --to one >/dev/null 2>&1
certificate=one/certificates/000/000000.envelope.json
status 0 "$bin/lethe-verify" state --tokens kept.ndjson "${config[@]}" --digest "$(digest)" \
  --certificate "$certificate" --key "$key"
said "VERIFIED  108 tokens"
status 7 "$bin/lethe-verify" state --tokens all.ndjson "${config[@]}" --digest "$(digest)"
said digest-mismatch
status 7 "$bin/lethe-verify" state --tokens all.ndjson "${config[@]}" --certificate "$certificate" --key "$key"
status 7 "$bin/lethe-verify" state --tokens kept.ndjson --gamma 3 --capacity 8 --certificate "$certificate" --key "$key"
said "another configuration"
tac kept.ndjson >reversed.ndjson
status 7 "$bin/lethe-verify" state --tokens reversed.ndjson "${config[@]}" --digest "$(digest)"
status 0 "$bin/lethe-verify" state --tokens kept.ndjson "${config[@]}"
said "nothing to compare with"
sed '5s/"id":"[^"]*",//' kept.ndjson >anonymous.ndjson
status 3 "$bin/lethe-verify" state --tokens anonymous.ndjson "${config[@]}"
said "no id"
status 1 "$bin/lethe-verify" state --tokens kept.ndjson --gamma 2
status 2 "$bin/lethe-verify" state --tokens absent.ndjson "${config[@]}"

# The receipt.
who=(--receipt answer.json --tenant clinic --request-id ticket-1)
status 0 "$bin/lethe-verify" certificate "$certificate" --key "$key" "${who[@]}" --subject p-3
said "$id"
status 0 "$bin/lethe-verify" export one --key "$key" "${who[@]}" --subject p-3
said "opens certificate 0"
status 7 "$bin/lethe-verify" export one --key "$key" "${who[@]}" --subject p-4

# The witness.
sign=("$bin/lethe" witness sign --witness-key witness.pem --name witness.example/w --state state)
status 2 "${sign[@]}" --key "$key"
said "--first"
status 0 "${sign[@]}" --key "$key" --first --send
status 2 "${sign[@]}" --key "$key" --first
printf 'log %s\nwitness w %s\nquorum w\n' "$key" "$witness" >policy
lethe log checkpoint >seen
status 0 "$bin/lethe-verify" checkpoint seen --policy policy
said "by w at"
for i in 1 2 3; do lethe verify >/dev/null; done
lethe log checkpoint >grown
status 4 "$bin/lethe-verify" checkpoint grown --policy policy
said witness-quorum
status 0 "${sign[@]}" --key "$key" --send
status 0 "${sign[@]}" --key "$key"
lethe export clinic --to cosigned.tar >/dev/null 2>&1
status 0 "$bin/lethe-verify" export cosigned.tar --policy policy
# An export that is older than what was signed, and one of the log by itself.
cp state before
status 3 "${sign[@]}" --key "$key" --from one
said shrank
cmp -s state before
status 0 "${sign[@]}" --key "$key" --from cosigned.tar
# A rotation: the export shows the hand-over, so that the old key is enough.
lethe key rotate --yes >/dev/null
status 3 "${sign[@]}" --key "$key"
lethe export clinic --to rotated.tar >/dev/null 2>&1
status 0 "${sign[@]}" --key "$key" --from rotated.tar
lethe verify >/dev/null
new=$(lethe log key -o json | sed -nE 's/.*"vkey": ?"([^"]*)".*/\1/p' | tail -n 1)
status 0 "${sign[@]}" --key "$key" --key "$new"
# A fork: the server goes on from an old copy of its data, and the log grows another way.
lethed_stop
cp -r data saved
lethed_start "$work/data" --witness "$witness"
for i in 1 2; do lethe verify >/dev/null; done
status 0 "${sign[@]}" --key "$key" --key "$new"
lethe export clinic --to longer.tar >/dev/null 2>&1
lethed_stop
rm -r data
mv saved data
lethed_start "$work/data" --witness "$witness"
status 3 "${sign[@]}" --key "$key" --key "$new"
said shrank
for i in 1 2 3; do lethe verify >/dev/null; done
cp state before
status 3 "${sign[@]}" --key "$key" --key "$new"
said forked
cmp -s state before
lethe export clinic --to forked.tar >/dev/null 2>&1
status 0 "$bin/lethe-verify" export forked.tar --key "$key"
status 6 "$bin/lethe-verify" consistency longer.tar forked.tar --key "$key"
status 3 "${sign[@]}" --key "$key" --from forked.tar
lethed_stop
echo "verifier: $checks checks"
