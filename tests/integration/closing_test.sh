#!/usr/bin/env bash
# closing_test.sh BIN: a tenant is deleted with the real programs, and the certificate that closes its log
# proves itself offline from what the answer brought, with the key pinned at the beginning: written by
# --out, printed, in JSON, and, for a lost answer, from the closed log by deploy/closing_proof.sh. What was
# changed or belongs to another log is refused.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh" "$1"
prove() { # FOLDER KEY
  "$bin/lethe-verify" certificate "$1/closing.envelope.json" --proof "$1/closing.tlog-proof" --key "$2"
}
refused() { # STATUS FOLDER
  status "$1" prove "$2" "$key"
  said REFUSED
}

lethed_start "$work/data"
fill() { # TENANT CHECKS
  lethe tenant create "$1" >/dev/null
  lethe memory create visits -t "$1" --gamma 2 --capacity 4 --key-dimension 1 --value-dimension 1 >/dev/null
  for i in 1 2 3 4 5 6; do
    printf '{"id":"v-%d","subject":"p-%d","key":[0.%d],"value":[%d]}\n' $i $((i % 3)) $i $i
  done | lethe insert -q -t "$1" -m visits -f - --format ndjson >/dev/null
  lethe forget -t "$1" -m visits --subject p-1 --yes >/dev/null
  for ((i = 1; i < $2; i++)); do lethe verify "$1" visits >/dev/null; done
}
pin() { lethe tenant get "$1" -o json | field verification_key; }
fill clinic 5
fill other 5
key=$(pin clinic)
other_key=$(pin other)
lethe export clinic --to before >/dev/null 2>&1

# Without consent, and with a folder that cannot take the proof, nothing happens.
status 1 lethe tenant delete clinic --out closed
status 2 lethe tenant delete clinic --yes --out before
said "--out"
status 0 lethe tenant get clinic
[ ! -e closed ] || fail "a folder was made for nothing"

status 0 lethe tenant delete clinic --yes --out closed
said "erased tokens  4"
said "  keys             key-destroyed"
said "  backups          unreadable-without-key"
said "written to     closed"
equal "vaults left" "$(find data/vault -mindepth 1 -maxdepth 1 | wc -l)" 1
id=$(sed -n 's/^certificate *//p' said)
status 69 lethe tenant get clinic
status 69 lethe log prove 6 -t clinic
status 69 lethe export clinic --to after
# A repetition cannot tell; it says where the proof is.
status 69 lethe tenant delete clinic --yes --out again
said "A deleted tenant"
[ ! -e again ] || fail "a folder was made for nothing"

# The other two ways to get it: printed, and in JSON.
lethe tenant delete other --yes >printed
mkdir from-text
grep -m 1 '^{"payload"' printed | tr -d '\n' >from-text/closing.envelope.json
sed -n '/^c2sp.org\/tlog-proof@v1$/,$p' printed >from-text/closing.tlog-proof
fill third 1
third_key=$(pin third)
lethe tenant delete third --yes -o json >json
mkdir from-json
field envelope <json | base64 -d >from-json/closing.envelope.json
printf '%b' "$(field tlog_proof <json)" >from-json/closing.tlog-proof
printf '%b' "$(field checkpoint <json)" >from-json/checkpoint
lethed_stop || fail "lethed did not end by itself with status 0"

# No server runs any more: the certificate, its proof and the pinned key are enough.
status 0 prove closed "$key"
said "VERIFIED  $id"
said "kind        tenant-closed"
said "size        7"
status 0 "$bin/lethe-verify" checkpoint closed/checkpoint --key "$key"
said "size        7"
status 0 prove from-text "$other_key"
said "size        7"
status 0 prove from-json "$third_key"
said "size        3"
status 0 "$bin/lethe-verify" checkpoint from-json/checkpoint --key "$third_key"
status 0 lethe certificate verify closed/closing.envelope.json --key "$key"
# It continues the log that was exported before: the hash of its last leaf is in what is signed.
status 0 "$bin/lethe-verify" export before --key "$key"
leaf=$("$bin/lethe-verify" certificate before/certificates/000/000005.envelope.json --key "$key" |
  sed -nE 's/^ *leaf hash *([0-9a-f]{64})$/\1/p')
sed -E 's/.*"payload":"([^"]*)".*/\1/' closed/closing.envelope.json | base64 -d >statement
equal "the leaf before in the closing certificate" \
  "$(grep -c "\"previousLeafHash\":\"$leaf\"" statement)" 1

# The wrong key, another log's proof, and every line of the proof changed in turn.
status 4 prove closed "$other_key"
said REFUSED
mixed() { rm -rf mixed && cp -r closed mixed; }
mixed
cp from-text/closing.tlog-proof mixed/
refused 4 mixed
mixed
cp before/certificates/000/000005.tlog-proof mixed/closing.tlog-proof
refused 5 mixed
lines=$(wc -l <closed/closing.tlog-proof)
equal "lines of the proof" "$lines" 10
for ((line = 1; line <= lines; line++)); do
  mixed
  # Swaps the first letter or digit of the line; an empty line gets one.
  awk -v line="$line" 'NR == line { at = match($0, /[A-Za-z0-9]/); c = substr($0, at, 1)
    $0 = substr($0, 1, at - 1) (c == "2" ? "3" : "2") substr($0, at + 1) } { print }' \
    closed/closing.tlog-proof >mixed/closing.tlog-proof
  cmp -s closed/closing.tlog-proof mixed/closing.tlog-proof && fail "line $line was not changed"
  got=0
  prove mixed "$key" >said 2>&1 || got=$?
  case $got in 3 | 4 | 5) said REFUSED ;; *) cat said; fail "line $line changed: exit status $got" ;; esac
done
mixed
sed -i '3d' mixed/closing.tlog-proof
refused 5 mixed
mixed
head -n -1 closed/closing.tlog-proof >mixed/closing.tlog-proof
refused 3 mixed

# The answer was lost: the closed log has the same, to the last byte.
log=$(find data/closed -mindepth 1 -maxdepth 1 -name 'clinic-*')
before=$(sha256sum <"$log/tenant.db")
status 0 bash "$root/deploy/closing_proof.sh" "$log" found
for name in closing.envelope.json closing.tlog-proof checkpoint; do
  status 0 cmp "closed/$name" "found/$name"
done
equal "the closed log after it" "$(sha256sum <"$log/tenant.db")" "$before"
equal "files of the closed log" "$(ls "$log")" tenant.db
status 2 bash "$root/deploy/closing_proof.sh" "$log" found
status 2 bash "$root/deploy/closing_proof.sh" data found2
status 0 bash "$root/deploy/closing_proof.sh" "$(find data/closed -mindepth 1 -name 'third-*')" third
status 0 cmp from-json/closing.tlog-proof third/closing.tlog-proof
status 0 cmp from-json/closing.envelope.json third/closing.envelope.json
echo "closing: $checks checks"
