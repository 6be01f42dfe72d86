#!/usr/bin/env bash
# end_to_end_test.sh BIN: the quick start in small, with the real programs on made-up data: insert from CSV
# and NDJSON, query, forget, verify offline, restart; then a second server that is fed with the survivors
# only must show the same state digest; there, edit and evict.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh" "$1"
digest() { lethe memory describe -o json | field state_digest; }
count() { lethe memory get -o jsonl | sed -nE 's/.*"margin":([0-9]+),"error":([0-9]+),"reserve":([0-9]+).*/\1+\2+\3/p' | { read -r sum; echo $((sum)); }; }

export LETHE_TENANT=clinic LETHE_MEMORY=visits

# 400 tokens of 40 subjects, from a generator of our own so that every awk makes the same; some keys repeat.
awk 'function random() { seed = (seed * 16807) % 2147483647; return seed / 2147483647 }
  BEGIN {
    seed = 20240229
    print "visit,patient,a,b,c,outcome"
    for (i = 0; i < 400; i++) {
      if (i % 25 != 24) for (k = 0; k < 3; k++) x[k] = random() + random() + random() - 1.5
      printf "visit-%d,person-%d,%.6f,%.6f,%.6f,%.3f\n", i, i % 40, x[0], x[1], x[2], random()
    }
  }' >all.csv
head -n 251 all.csv >first.csv
tail -n +252 all.csv | awk -F, '{
  printf "{\"id\":\"%s\",\"subject\":\"%s\",\"key\":[%s,%s,%s],\"value\":[%s]}\n", $1, $2, $3, $4, $5, $6 }' >rest.ndjson
awk -F, '$2 != "person-7" && $1 != "visit-100" && $1 != "visit-101"' all.csv >survivors.csv
columns=(--id-column visit --subject-column patient --key-columns a,b,c --value-columns outcome)
create() {
  lethe tenant create clinic >/dev/null
  lethe memory create visits --kernel rbf --gamma 0.5 --capacity 20 --key-dimension 3 --value-dimension 1 >/dev/null
}
stop() { lethed_stop || fail "lethed did not end by itself with status 0"; }

lethed_start "$work/data"
create
key=$(lethe tenant get -o json | field verification_key)
[ -n "$key" ] || fail "no verification key"

# Insert: both formats, and the same once more.
equal "inserted from CSV" "$(lethe insert --file first.csv "${columns[@]}" -o json | field inserted)" 250
equal "inserted from NDJSON" "$(lethe insert --file - --format ndjson -o json <rest.ndjson | field inserted)" 150
full=$(digest)
equal "inserted again" "$(lethe insert --file all.csv "${columns[@]}" -o json | field unchanged)" 400
equal "digest after inserting again" "$(digest)" "$full"
equal "tokens" "$(count)" 400

# Bad input is named by place, and changes nothing.
printf 'visit,patient,a,b,c,outcome\nx1,p1,0.1,zero,0.3,1\n' >bad.csv
status 2 lethe insert --file bad.csv "${columns[@]}"
said 'line 2, column "b"'
sed -n '1p;2s/0\.[0-9]*$/9/p' all.csv >changed.csv
status 2 lethe insert --file changed.csv "${columns[@]}"
said 'line 2: rejected'
status 67 lethe query --key 0.1,0.2
said 'queries[0]'
status 67 lethe memory create other --gamma 1 --box 1.5 --key-dimension 3 --value-dimension 1
said 'box'
status 69 lethe memory get nowhere
equal "digest after bad input" "$(digest)" "$full"

# Query.
lethe query --key 0.1,0.2,-0.1 --key=-0.5,0,0.5 --top 400 -o jsonl >answers
equal "answers" "$(wc -l <answers)" 2
equal "answers inside" "$(grep -c '"position":"inside"' answers)" 2
status 0 lethe query --key 50,50,50 -o jsonl
said '"position":"outside"'

# Forget: the plan first, then a subject, two ids, ids that are gone or never were, a repeated request.
status 1 lethe forget --subject person-7
said '10'
equal "digest after a plan" "$(digest)" "$full"
status 0 lethe forget --subject person-7 --yes -o json --request-id first-request
equal "erased" "$(field erased <said)" 10
certificate=$(field certificate_id <said)
shredded=$(sed -n '/"destruction"/,$p' said | field certificate_id)
said '"key-destroyed"'
equal "digest in the answer" "$(field state_digest <said)" "$(digest)"
status 0 lethe forget --subject person-7 --yes -o json --request-id first-request
equal "replayed" "$(field replayed <said)" true
equal "certificate of the repeated request" "$(field certificate_id <said)" "$certificate"
said "\"$shredded\""
status 0 lethe certificate show "$shredded"
said shredded
status 0 lethe forget --id visit-100 --id visit-101 --id visit-7 --id never --yes -o json
equal "erased by id" "$(field erased <said)" 2
equal "already erased" "$(field already_erased <said)" 1
equal "not found" "$(field not_found <said)" 1
equal "tokens left" "$(count)" 388
if lethe query --key 0.1,0.2,-0.1 --top 1000 -o jsonl | grep -qE '"id":"visit-(7|47|87|100|101)"'; then
  fail "a forgotten token still carries an answer"
fi
left=$(digest)

# Certificates: offline, against the key noted at the beginning, by both programs.
status 0 lethe export --to certificates -o json
equal "certificates exported" "$(field certificates <said)" 4
status 2 lethe export --to certificates
status 0 lethe export --to certificates.tar
status 0 lethe log checkpoint
cp said old.checkpoint
status 0 lethe log prove 2 --out one.tlog-proof
other_key=$(lethe tenant create other -o json | field verification_key)
stop
first=certificates/certificates/000/000000.envelope.json
status 0 "$bin/lethe-verify" export certificates --key "$key"
status 0 "$bin/lethe-verify" export certificates.tar --key "$key"
status 0 "$bin/lethe-verify" checkpoint old.checkpoint --key "$key"
status 0 "$bin/lethe" certificate verify "$first" --key "$key"
status 0 "$bin/lethe-verify" certificate "$first" --key "$key"
status 0 "$bin/lethe-verify" certificate certificates/certificates/000/000002.envelope.json \
  --proof one.tlog-proof --key "$key"
equal "id of the certificate" "$(sha256sum <"$first" | cut -d' ' -f1)" "$certificate"
# What is signed names nobody. The same search finds the name of the log, so it would find the others.
sed -E 's/.*"payload":"([^"]*)".*/\1/' "$first" | base64 -d >statement
equal "the log's name in what is signed" "$(grep -c "${key%%+*}" statement)" 1
if grep -qE 'person-|visit-' statement; then fail "a certificate names a subject or a token"; fi
refused() { # STATUS COMMAND...
  status "$@"
  said REFUSED
}
cp -r certificates tailless
rm tailless/certificates/000/000003.*
refused 5 "$bin/lethe-verify" export tailless --key "$key"
refused 4 "$bin/lethe-verify" export certificates --key "$other_key"
awk '{ at = index($0, "\"payload\":\"") + 200; old = substr($0, at, 1)
       printf "%s", substr($0, 1, at - 1) (old == "A" ? "B" : "A") substr($0, at + 1) }' "$first" >tampered.json
refused 4 "$bin/lethe-verify" certificate tampered.json --key "$key"

# Restart: the same state, the same answers, and gone is gone.
lethed_start "$work/data"
equal "digest after a restart" "$(digest)" "$left"
status 0 lethe forget --subject person-7 --yes -o json
equal "erased once more" "$(field erased <said)" 0
status 0 lethe forget --id visit-7 --dry-run -o json
equal "already erased after a restart" "$(field already_erased <said)" 1
status 0 lethe memory describe --refit -o json
equal "verdict of a refit" "$(field verdict <said)" bit-identical

# A cold refit written into the log; then a new key, to which the pinned one hands over.
status 0 lethe verify clinic visits -o json
equal "verdict of a verification" "$(field verdict <said)" bit-identical
equal "digest after a verification" "$(digest)" "$left"
status 1 lethe key rotate
status 0 lethe key rotate --yes
said 'complete     yes'
status 0 lethe log key
equal "keys of the log" "$(grep -c "${key%%+*}" said)" 2
if [ "$(lethe tenant get -o json | field verification_key)" = "$key" ]; then fail "the key is the old one"; fi
equal "key files" "$(ls data/keys)" signing.pem
status 0 lethe forget --id visit-200 --dry-run -o json
status 0 lethe export clinic --to rotated.tar
status 0 "$bin/lethe-verify" export rotated.tar --key "$key"
said 'from certificate 6 on'
status 0 tar -xOf rotated.tar summary.jsonl
said 'retrain-check'
said 'key-handover'
status 0 "$bin/lethe-verify" consistency certificates.tar rotated.tar --key "$key"
status 0 "$bin/lethe-verify" consistency old.checkpoint rotated.tar --key "$key"
refused 6 "$bin/lethe-verify" consistency rotated.tar certificates.tar --key "$key"
status 0 lethe forget --subject person-7 --yes -o json --request-id first-request
equal "replayed after a restart" "$(field replayed <said)" true

# A new key-encryption key: the old one is gone, the rows are read, the log names its epoch.
keks() { find data/vault -name 'kek-*' -printf '%f\n' | sort | xargs; }
equal "KEK files of two tenants" "$(keks)" "kek-0000000001 kek-0000000001"
status 1 lethe key rewrap
status 0 lethe key rewrap --yes
equal "KEK files after a rewrap of one" "$(keks)" "kek-0000000001 kek-0000000002"
status 0 lethe export clinic --to rewrapped.tar
status 0 "$bin/lethe-verify" export rewrapped.tar --key "$key"
status 0 tar -xOf rewrapped.tar summary.jsonl
said '"destroyed_epochs":[1]'
status 0 lethe memory describe --refit -o json
equal "digest after a rewrap" "$(digest)" "$left"

# A server that never saw the forgotten tokens.
lethed_kill
lethed_start "$work/data"
equal "digest after kill -9" "$(digest)" "$left"
stop
lethed_start "$work/fresh"
create
lethe insert --file survivors.csv "${columns[@]}" >/dev/null
equal "digest of a server fed with the survivors" "$(digest)" "$left"

# Deleting everything, and starting again under the same names.
status 0 lethe forget --everything --yes -o json
equal "erased everything" "$(field erased <said)" 388
equal "tokens after everything" "$(count)" 0
status 0 lethe query --key 0,0,0
status 0 lethe memory delete visits --yes
status 69 lethe memory get visits
stop
lethed_start "$work/fresh"
status 69 lethe memory get visits
lethe memory create visits --gamma 0.5 --capacity 20 --key-dimension 3 --value-dimension 1 >/dev/null
equal "tokens of a memory made again" "$(count)" 0
lethe insert --file survivors.csv "${columns[@]}" >/dev/null
equal "digest of a memory made again" "$(digest)" "$left"

# Edit: the plan first, then as one change; the state is that of a memory that got the new content last.
cat >edit.ndjson <<'END'
{"id":"visit-3","subject":"person-3","key":[0.1,0.1,0.1],"value":[0.5],"labels":{"corrected":"yes"}}
{"id":"visit-205","key":[-0.4,0.2,0.3],"value":[0.25]}
END
status 1 lethe edit --file edit.ndjson
said 'would edit       2'
equal "digest after the plan of an edit" "$(digest)" "$left"
printf '{"id":"nobody","key":[1,1,1],"value":[1]}\n' >nobody.ndjson
status 69 lethe edit --file nobody.ndjson --yes
said 'line 1: id: there is no token with this id'
status 0 lethe edit --file edit.ndjson --yes -o json --request-id edit-1
equal "edited" "$(field edited <said)" 2
edited=$(field state_digest <said)
edit_certificate=$(field certificate_id <said)
equal "digest after the edit" "$(digest)" "$edited"
status 0 lethe edit --file edit.ndjson --yes -o json --request-id edit-1
equal "edit replayed" "$(field certificate_id <said)" "$edit_certificate"
status 0 lethe edit --file edit.ndjson --yes -o json
equal "edited again" "$(field unchanged <said)" 2
equal "certificate of an edit without effect" "$(field certificate_id <said)" ""
lethe memory create expected --gamma 0.5 --capacity 20 --key-dimension 3 --value-dimension 1 >/dev/null
grep -vE '^visit-(3|205),' survivors.csv >others.csv
lethe insert --memory expected --file others.csv "${columns[@]}" >/dev/null
lethe insert --memory expected --file edit.ndjson >/dev/null
equal "digest of a memory that got the new content last" "$(LETHE_MEMORY=expected digest)" "$edited"

# Evict: no readout changes in any digit, and the restarted server has the same state.
ask() { lethe query --key 0.1,0.2,-0.1 --key=-0.5,0,0.5 --key 3,3,3 --top 400 -o jsonl; }
ask >before
status 1 lethe evict --budget 200
said 'would take out   188'
equal "digest after the plan of an eviction" "$(digest)" "$edited"
status 1 lethe evict --budget 0 --yes
status 0 lethe evict --budget 200 --yes -o json --request-id evict-1
equal "evicted" "$(field evicted <said)" 188
equal "retained" "$(field retained <said)" 200
evicted=$(field state_digest <said)
evict_certificate=$(field certificate_id <said)
equal "tokens after the eviction" "$(count)" 200
equal "digest after the eviction" "$(digest)" "$evicted"
ask >after
status 0 cmp before after
status 0 lethe evict --budget 200 --yes -o json
equal "evicted again" "$(field evicted <said)" 0
equal "certificate of an eviction without effect" "$(field certificate_id <said)" ""
status 0 lethe certificate show "$evict_certificate"
said 'retained  200'
said 'measured-against-retained-tokens'
status 0 lethe certificate list
said 'edit'
said 'evict'
fresh_key=$(lethe tenant get -o json | field verification_key)
lethe export --to fresh-certificates >/dev/null
lethed_kill
lethed_start "$work/fresh"
equal "digest after the eviction and kill -9" "$(digest)" "$evicted"
status 0 lethe evict --budget 200 --yes -o json --request-id evict-1
equal "eviction replayed after kill -9" "$(field replayed <said)" true
status 0 lethe memory describe --refit -o json
equal "verdict of a refit after the eviction" "$(field verdict <said)" bit-identical
status 0 "$bin/lethe-verify" export fresh-certificates --key "$fresh_key"
status 0 cat fresh-certificates/summary.jsonl
said '"evict"'
status 0 "$bin/lethe-verify" certificate fresh-certificates/certificates/000/000004.envelope.json --key "$fresh_key"
said 'budget 200: 188 taken from the reserve, 0 surplus copies'
stop

# Nothing personal in the servers' logs.
if grep -qE 'person-|visit-|"key"' data.log fresh.log; then fail "a log names a subject, a token or a key"; fi
echo "end to end: $checks checks"
