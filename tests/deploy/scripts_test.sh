#!/usr/bin/env bash
# scripts_test.sh BIN: lethe health, deploy/backup.sh and deploy/restore_drill.sh against a real server: what is
# whole comes back, the server is not touched, and what is not whole is said and ends with another exit status.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../integration/checks.sh" "$1"
export LETHE_BIN=$bin
backup() { bash "$root/deploy/backup.sh" "$@"; }
drill() { bash "$root/deploy/restore_drill.sh" --backups backups --keys data/keys --vault vault "$@"; }
tokens() { # FIRST LAST
  for ((i = $1; i <= $2; i++)); do
    printf '{"id":"visit-%d","subject":"subject-%d","key":[0.%d,%d.5],"value":[%d]}\n' $i $((i / 2)) $((i * 7 % 10)) $((i % 5)) $i
  done
}

LETHE_ADDRESS=127.0.0.1:1 status 78 lethe health --timeout 5s
lethed_start "$work/data" --vault "$work/vault"
status 0 lethe health
said "SERVING"
status 0 lethe health --service lethe.v1.MemoryService -o json
said '"health": "SERVING"'
status 69 lethe health --service lethe.v1.NoService

mkdir backups
status 0 backup backups
said "holds 0 tenants"
status 1 drill
said "holds no backup"
rm -rf backups/2*
for tenant in clinic lab old; do
  lethe tenant create "$tenant" >/dev/null
  lethe memory create visits -t "$tenant" --gamma 0.7 --capacity 6 --key-dimension 2 --value-dimension 1 >/dev/null
  tokens 1 20 | lethe insert -q -t "$tenant" -m visits -f - --format ndjson >/dev/null
  lethe tenant get "$tenant" -o json | field verification_key >>pinned
done

# Backups: one a run, the newest stay, nothing else is removed, and none is made beside another.
mkdir -p backups/20200101T000000Z/clinic backups/20200102T000000Z backups/kept
LETHE_KEY_FILE=$work/pinned status 0 backup backups 2
said "holds 3 tenants; 1 older ones removed"
equal "what stays" "$(ls backups | grep -vc '^20[23]')" 1
[ ! -e backups/20200101T000000Z ] && [ -d backups/20200102T000000Z ] || fail "the oldest was to go, and no other"
head -n 1 pinned >wrong
LETHE_KEY_FILE=$work/wrong status 3 backup backups 2
said "what was written does not verify"
said "holds the 1 tenants that succeeded"
equal "what is half made" "$(find backups -name '.*.part' | wc -l)" 0
equal "what succeeded" "$(ls backups/*.partial)" clinic
[ -d backups/20200102T000000Z ] || fail "a partial backup took the place of a whole one"
LETHE_KEY_FILE=$work/pinned status 0 backup backups 3
equal "partial ones, after a whole one" "$(find backups -name '*.partial' | wc -l)" 0
rm -rf "backups/$(ls backups | grep -x '2.*Z' | sort | tail -n 1)"
(flock 9; status 75 backup backups; said "another one") 9>backups/.lock
status 2 backup nowhere
status 64 backup backups 0
LETHE_ADDRESS=127.0.0.1:1 status 78 backup backups
rm -rf backups/20200102T000000Z backups/kept

# After the backup: an erasure, and a tenant that goes.
lethe forget -t clinic -m visits --subject subject-3 --yes >/dev/null
lethe tenant delete old --yes >/dev/null
digest=$(lethe memory describe visits -t clinic -o json | field state_digest)
certificates=$(lethe tenant get clinic -o json | field certificate_count)
mkdir scratch
chmod 2770 scratch  # as volumes of a cluster are
status 0 drill --key-file pinned --work scratch
said "clinic: back, with 2 certificates put back and 2 tokens taken out again"
said "old: deleted since, and stays so"
said "2 of 2 tenants, 2 memories, 38 tokens back and verified"
equal "what the drill leaves" "$(ls scratch)" ""
equal "the server's state" "$(lethe memory describe visits -t clinic -o json | field state_digest)" "$digest"
equal "the server's log" "$(lethe tenant get clinic -o json | field certificate_count)" "$certificates"
# A key of somebody else's log.
head -n 1 pinned >one
status 1 drill --key-file one --work scratch
said "FAILED: lab: its log verifies with no key"
# Calls that fail after the restore: those tenants are not back, and the drill goes on.
mkdir other_bin
ln -s "$bin/lethed" "$bin/lethe-verify" other_bin
cat >other_bin/lethe <<SCRIPT
#!/usr/bin/env bash
case " \$* " in
  *" memory list -t clinic "* | *" verify lab visits "* | *" export lab "*) echo "lethe: error: refused" >&2; exit 78 ;;
esac
exec "$bin/lethe" "\$@"
SCRIPT
chmod 755 other_bin/lethe
LETHE_BIN=$work/other_bin status 1 drill --key-file pinned --work scratch
for what in "clinic: memories" "lab: visits" "lab: export"; do said "FAILED: $what: lethe: error: refused"; done
said "0 of 2 tenants, 0 memories, 0 tokens"
equal "what the drill leaves" "$(ls scratch)" ""
lethed_stop || fail "lethed did not end by itself with status 0"

# A byte of a backup, a lost vault, another signing key.
newest=$(find backups -mindepth 1 -maxdepth 1 -name '2*')
printf 'x' | dd of="$newest/lab/tenant.db" bs=1 seek=5000 conv=notrunc status=none
status 1 drill
said "FAILED: lab: "
said "1 of 2 tenants"
rm -rf "$newest/lab"
cp -r vault whole
mv vault vault.away
mkdir -m 700 vault
status 1 drill
said "FAILED: clinic: the vault has nothing of it, and no log beside the keys says that it was deleted"
rm -rf vault
mv vault.away vault
rm vault/*/kek/*
status 1 drill
said "FAILED: clinic: "
rm -rf vault
mv whole vault
mkdir other
openssl genpkey -algorithm ed25519 -out other/signing.pem 2>/dev/null
chmod 400 other/signing.pem
status 1 bash "$root/deploy/restore_drill.sh" --backups backups --keys other --vault vault
said "FAILED: clinic: "
status 2 bash "$root/deploy/restore_drill.sh" --backups backups --keys vault --vault vault
status 64 bash "$root/deploy/restore_drill.sh" --backups backups
status 0 drill
said "and this backup has not: it was made since"
said "1 of 1 tenants, 1 memories, 18 tokens"
echo "scripts: $checks checks"
