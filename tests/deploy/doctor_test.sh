#!/usr/bin/env bash
# doctor_test.sh BIN: `lethe doctor` finds an installation in order, and each fault that is planted in it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../integration/checks.sh" "$1"
authority() { # DAYS FILE
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "$1" -subj /CN=lethe -keyout key.pem -out "$2" 2>/dev/null
}
authority 90 good.pem
authority 10 short.pem
authority 1 ending.pem
backup() { # SUFFIX: a folder as deploy/backup.sh makes it
  local folder
  folder=backups/$(date -u +%Y%m%dT%H%M%SZ)$1
  mkdir -p "$folder/clinic" && : >"$folder/clinic/manifest"
}
backup ""
lethed_start "$work/data" --vault "$work/vault" --ballast 16MiB
for tenant in clinic lab; do
  lethe tenant create "$tenant" >/dev/null
  lethe memory create visits -t "$tenant" --gamma 0.7 --capacity 6 --key-dimension 2 --value-dimension 1 >/dev/null
done
chmod 600 key.pem
cat >lethed.toml <<TOML
data = "$work/data"
vault = "$work/vault"
tls-certificate = "$work/good.pem"
tls-key = "$work/key.pem"
TOML
doctor() { lethe doctor --config lethed.toml --backups backups "$@"; }
# line VERDICT CHECK WORDS: the last status printed such a line.
line() {
  checks=$((checks + 1))
  grep -qE "^$1 +$2 +.*$3" said || { cat said >&2; fail "no line: $1 $2 $3"; }
}

# In order: whether the machine has room and its clock is kept is not ours to say here.
status 0 doctor
line ok server "SERVING"
line ok versions "lethe [0-9.]+; tenants: 2 of format [0-9]+"
line ok keys "[0-9]+ files and folders are the server's alone"
line ok anchor "keys and anchors of 2 tenants"
line warn witness "the settings name none"
line ok backup "the newest is 0 h old"
line ok certificate "tls-certificate: valid until"
grep -qE '^ +-> ' said || fail "a warning says not what to do"
status 4 doctor --strict
status 0 doctor --offline
grep -q "^ok *server" said && fail "asked the server"
status 0 doctor -o json
python3 - said <<'PYTHON' || fail "JSON"
import json, sys
findings = json.load(open(sys.argv[1]))
assert {finding["verdict"] for finding in findings} <= {"ok", "warn", "fail"}
assert all(finding["check"] and finding["found"] for finding in findings)
assert all(finding["advice"] or finding["verdict"] == "ok" for finding in findings)
PYTHON
status 1 lethe doctor
said "give --config FILE or --data DIR"
status 1 doctor --backup-age soon
said "--backup-age: not a duration"
echo 'data = 3' >bad.toml
status 2 lethe doctor --config bad.toml
said "bad.toml:1: data: must be a string"

# Each fault, one at a time, and put right again.
chmod 644 data/keys/signing.pem
status 4 doctor
line fail keys "signing.pem: mode 0644, others can use it"
chmod 400 data/keys/signing.pem
mv data/keys/signing.pem signing.pem
status 4 doctor
line fail keys "signing.pem: there is none"
mv signing.pem data/keys/signing.pem
chmod 750 vault
status 4 doctor
line fail keys "vault: mode 0750"
chmod 700 vault
chmod 644 key.pem
status 4 doctor
line fail keys "key.pem: mode 0644"
chmod 600 key.pem
: >data/keys/signing.next.pem
chmod 400 data/keys/signing.next.pem
status 0 doctor
line warn keys "a rotation of the signing key is not finished"
rm -f data/keys/signing.next.pem
mv data/ballast ballast
status 0 doctor
line warn disk "the ballast is gone"
mv ballast data/ballast
uid=$(ls vault | head -n 1)
mv "vault/$uid/anchor.db" anchor.db
status 4 doctor
line fail anchor "lacks anchor.db"
line fail anchor "2 tenants, and 1 whole in the vault"
mv anchor.db "vault/$uid/anchor.db"
mv "vault/$uid/keys.db" keys.db
: >"vault/$uid/keys.db"
mv "vault/$uid/kek" kek
mkdir -m 700 "vault/$uid/kek"
status 4 doctor
line fail anchor "lacks keys.db, kek"
rmdir "vault/$uid/kek"
mv kek "vault/$uid/kek"
mv keys.db "vault/$uid/keys.db"
status 4 lethe doctor --data data --vault nowhere
line fail anchor "nowhere: No such file"
cp -r "vault/$uid" vault/00000000000000000000000000000000
status 0 doctor
line warn anchor "3 tenants in the vault, and 2 in the data"
mkdir -m 700 vault/others
rm -rf vault/00000000000000000000000000000000
status 0 doctor
line ok anchor "of 2 tenants"
rmdir vault/others
touch -d '+1 hour' data/tenants/lab/tenant.db
status 4 doctor
line fail clock "tenant lab was written in the future"
touch data/tenants/lab/tenant.db
mv backups/2* backups/"$(date -u -d '-50 hours' +%Y%m%dT%H%M%SZ)"
status 0 doctor
line warn backup "the newest is 2 days old"
status 4 doctor --backup-age 10h
line fail backup "the newest is 2 days old"
status 0 doctor --backup-age 60h
line ok backup "2 days"
backup .partial
status 0 doctor --backup-age 60h
line warn backup "2 days old; a newer one lacks tenants"
rm -rf backups/2*
status 4 doctor
line fail backup "holds no backup"
mkdir backups/"$(date -u +%Y%m%dT%H%M%SZ)"
status 4 doctor
line fail backup "holds no backup"
rmdir backups/2*
backup ""
for pair in short.pem:warn:0 ending.pem:fail:4; do
  IFS=: read -r file verdict expected <<<"$pair"
  status "$expected" doctor --certificate "$file"
  line "$verdict" certificate "tls-certificate: valid until"
done
status 4 doctor --certificate lethed.toml
line fail certificate "holds no certificate in PEM"
# One tenant's file of another format.
cp data/tenants/lab/tenant.db kept.db
printf '\0\0\0\3' | dd of=data/tenants/lab/tenant.db bs=1 seek=60 conv=notrunc status=none
status 4 doctor
line fail versions "1 of format 3, 1 of format 4"
printf '\0\0\0\5' | dd of=data/tenants/lab/tenant.db bs=1 seek=60 conv=notrunc status=none
status 0 doctor
line ok versions "1 of format 4, 1 of format 5"
cat kept.db >data/tenants/lab/tenant.db
printf '\0\0\0\0' | dd of=data/tenants/lab/tenant.db bs=1 seek=68 conv=notrunc status=none
status 4 doctor
line fail versions "tenant lab: its file is no tenant's"
cat kept.db >data/tenants/lab/tenant.db
echo "witness = [\"witness.example.org/1+0\"]" >>lethed.toml
status 0 doctor
line warn witness "0 of 2 logs carry the cosignatures of 1 witnesses"
lethed_stop || fail "lethed did not end by itself with status 0"
status 4 doctor
line fail server "UNAVAILABLE"
echo "doctor: $checks checks"
