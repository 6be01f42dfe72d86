#!/usr/bin/env bash
# backup_test.sh BIN: tenants are backed up, somebody is forgotten, the data folder is lost but for vault and
# keys, and the backups are put back with the real programs. Who was forgotten stays so, the log continues and
# verifies, and the state is, in every bit, that of a server that was given the retained tokens alone. What was
# changed is refused, by verify and by the server.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh" "$1"
flip() { # FILE OFFSET: changes one bit
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf "\\x$(printf '%02x' $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
tokens() { # FIRST LAST: visits of two a patient, with a payload that must not be found in a backup
  for ((i = $1; i <= $2; i++)); do
    printf '{"id":"visit-%d","subject":"patient-%d","key":[0.%d,%d.5],"value":[%d],"payload":"zimtstern-%d"}\n' \
      $i $((i / 2)) $((i * 7 % 10)) $((i % 5)) $i $i
  done
}
insert() { lethe insert -q -t "$1" -m visits -f - --format ndjson >/dev/null; }
make() { # TENANT
  lethe tenant create "$1" >/dev/null
  lethe memory create visits -t "$1" --gamma 0.7 --capacity 6 --key-dimension 2 --value-dimension 1 >/dev/null
}
pin() { lethe tenant get "$1" -o json | field verification_key; }
digest() { lethe memory describe visits -t "$1" -o json | field state_digest; }

lethed_start "$work/data" --vault "$work/vault"
make clinic
make lab
tokens 1 40 | insert clinic
tokens 1 6 | insert lab
lethe forget -t clinic -m visits --subject patient-3 --yes >/dev/null
for tenant in clinic lab; do pin "$tenant"; done >keys
clinic_key=$(pin clinic)

# All tenants, twice: a second time into the same folder nothing is overwritten.
status 0 lethe backup create --out monday
said "to            monday/clinic"
said "to            monday/lab"
equal "modes" "$(stat -c %a monday monday/clinic monday/clinic/tenant.db monday/lab/manifest | xargs)" "700 700 600 600"
status 2 lethe backup create --out monday
status 0 lethe backup create --out tuesday
for day in monday tuesday; do
  status 0 lethe backup verify $day --key-file keys
  said "yes: signature, size and SHA-256"
done
status 3 lethe backup verify monday --key "$clinic_key"
said "monday/lab: signature: no key was given for the log"
grep -qaE 'zimtstern|patient-|visit-' monday/*/* && fail "something stands in a backup in clear"
[ -z "$(ls data/temporary)" ] || fail "the server kept a copy"

# A changed byte, wherever it is, is seen by verify and by restore; a server that gets it all the same refuses it.
cp -r monday bent
flip bent/clinic/tenant.db $(($(stat -c %s bent/clinic/tenant.db) / 2))
status 3 lethe backup verify bent/clinic --key "$clinic_key"
said "file-sha256"
status 3 lethe backup restore bent/clinic --replace
said "file-sha256"
sed -i "s/^file-sha256 .*/file-sha256 $(sha256sum <bent/clinic/tenant.db | cut -d' ' -f1)/" bent/clinic/manifest
status 3 lethe backup verify bent/clinic --key "$clinic_key"
said "signature: one that names the key does not verify"
status 73 lethe backup restore bent/clinic --replace
said "signature: the manifest is signed by no key of this tenant's log"

# Served tenants are not replaced by mistake.
status 73 lethe backup restore monday/clinic
said "is served"

# After the backup: two patients are forgotten, one of them in part, and somebody is added.
lethe forget -t clinic -m visits --subject patient-7 --yes >/dev/null
lethe forget -t clinic -m visits --id visit-20 --yes >/dev/null
tokens 50 53 | insert clinic
lethe export clinic --to before >/dev/null 2>&1
lethed_stop || fail "lethed did not end by itself with status 0"

# The data is lost. Without the vault nothing comes back; with it everything that may.
mv data lost
mkdir -m 700 data
cp -r lost/keys data/
mv vault kept
lethed_start "$work/data" --vault "$work/vault"
status 73 lethe backup restore monday/clinic
lethed_stop || true
rm -rf vault
mv kept vault
lethed_start "$work/data" --vault "$work/vault"
status 69 lethe tenant get clinic
status 0 lethe backup restore monday/clinic
said "certificates in the copy     2"
said "certificates put back        4"
said "tokens taken out again       3"
said "tokens lost with their keys  1"
status 0 lethe backup restore monday/lab
said "certificates put back        0"
status 0 lethe query -t clinic -m visits --key 0.1,2.5 --top 1000 -o json
grep -qE '"visit-(6|7|14|15|20|21|50)"' said && fail "somebody is back"
equal "patients forgotten: nothing left to forget" \
  "$(lethe forget -t clinic -m visits --id visit-14 --yes -o json | field already_erased)" 1
status 1 lethe forget -t clinic -m visits --subject patient-9  # the plan
said "would erase      2"
grep -q '"event":"tenant_restored"' data.log || fail "the log does not say what was done"

# The log continues what was exported before, and says `restored`.
status 0 lethe export clinic --to after
status 0 "$bin/lethe-verify" export after --key "$clinic_key"
status 0 "$bin/lethe-verify" consistency before after --key "$clinic_key"
equal "the last certificate" "$(tail -n 1 after/summary.csv | cut -d, -f3)" '"restored"'

# The state is that of a server that never saw the others.
clinic=$(digest clinic)
make fresh
{ tokens 1 5; tokens 8 13; tokens 16 19; tokens 22 40; } | insert fresh
equal "the state of a memory that was given the retained tokens alone" "$clinic" "$(digest fresh)"

# And it is a tenant like any other, with backups of its own, also over a restart.
tokens 50 53 | insert clinic
lethe forget -t clinic -m visits --subject patient-9 --yes >/dev/null
clinic=$(digest clinic)
lethed_stop || fail "lethed did not end by itself with status 0"
lethed_start "$work/data" --vault "$work/vault"
equal "the state after a restart" "$(digest clinic)" "$clinic"
status 0 lethe backup create clinic --out wednesday
status 0 lethe backup verify wednesday/clinic --key "$clinic_key"
status 0 lethe backup restore wednesday/clinic --replace
equal "the state after a restore of the newest backup" "$(digest clinic)" "$clinic"
lethed_stop || fail "lethed did not end by itself with status 0"
echo "backup: $checks checks"
