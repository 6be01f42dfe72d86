#!/usr/bin/env bash
# The restore drill: shows that the newest backup, the keys and the vault bring every tenant back, without
# touching the server that runs. It starts a server of its own on loopback over a copy of the vault and an
# empty data folder, restores each tenant, has every memory solved again and compared bit for bit, exports
# every log and verifies it offline, and destroys what it copied.
#
#   restore_drill.sh --backups FOLDER --keys FOLDER --vault FOLDER [--key-file FILE] [--work FOLDER] [--secrets FOLDER]
#
#   --backups FOLDER   of deploy/backup.sh, whose newest backup is taken; or one with a folder a tenant
#   --keys FOLDER      `keys` of the data folder, with signing.pem; it is only read, and `closed` beside it
#   --vault FOLDER     the vault, or a snapshot of it; it is only read
#   --key-file FILE    pinned keys of the tenants' logs, a line each; without it, those that the restored logs
#                      state, which shows that all is whole but not whose it is
#   --work FOLDER      where the restored data lie meanwhile (default: a temporary folder)
#   --secrets FOLDER   where the copies of keys and vault lie, best in memory (default: that of --work)
#
# A vault that a running server writes is copied again until nothing changed meanwhile; a snapshot is better.
# Exit status: 0 when every tenant came back; 1 when something did not, which is said; 2 a file; 64 usage.
set -euo pipefail
umask 077
usage() { sed -n '7,16s/^# \{0,1\}//p' "$0" >&2; exit 64; }
die() { echo "restore drill: $2" >&2; exit "$1"; }
backups='' keys='' vault='' key_file='' work='' secrets=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case "$1" in
    --backups) backups=$2 ;;
    --keys) keys=$2 ;;
    --vault) vault=$2 ;;
    --key-file) key_file=$2 ;;
    --work) work=$2 ;;
    --secrets) secrets=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ -n "$backups" ] && [ -n "$keys" ] && [ -n "$vault" ] || usage
for folder in "$backups" "$keys" "$vault"; do
  [ -d "$folder" ] || die 2 "$folder: no such folder"
done
[ -f "$keys/signing.pem" ] || die 2 "$keys/signing.pem: no such file"
bin=${LETHE_BIN:-$(dirname "$(command -v lethed || echo /usr/bin/lethed)")}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/lib/lethed.sh"
# The drill's server is its own: nothing that the caller has set says anything about it.
for variable in $(compgen -v LETHE_ || true); do
  unset "$variable"
done
export HOME=/nonexistent

work=$(realpath "$(mktemp -d "${work:-${TMPDIR:-/tmp}}/drill.XXXXXX")")
if [ -n "$secrets" ]; then secrets=$(realpath "$(mktemp -d "$secrets/drill.XXXXXX")"); else secrets=$work; fi
destroy() {
  lethed_kill
  # Overwriting helps where the file system writes in place; a folder in memory needs none.
  find "$secrets" -type f -exec shred -n 1 -u {} + 2>/dev/null || true
  rm -rf "$work" "$secrets"
}
trap destroy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

newest=$(find "$backups" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | grep -xE '[0-9]{8}T[0-9]{6}Z' | sort | tail -n 1 || true)
source_folder=$backups${newest:+/$newest}
mapfile -t found < <(find "$source_folder" -mindepth 2 -maxdepth 2 -name manifest -printf '%h\n' | sort)
[ ${#found[@]} -gt 0 ] || die 1 "$source_folder: holds no backup"
echo "restore drill: ${#found[@]} tenants in $source_folder"

# state FOLDER: what tells one state of a folder from another.
state() { find "$1" -printf '%P %s %T@ %C@ %i\n' | sort; }
copied=
for ((tries = 0; tries < 20 && ${#copied} == 0; tries++)); do
  before=$(state "$vault"; state "$keys")
  rm -rf "$secrets/vault" "$secrets/keys"
  if cp -r "$vault" "$secrets/vault" && cp -r "$keys" "$secrets/keys" &&
      [ "$before" = "$(state "$vault"; state "$keys")" ]; then
    copied=yes
  else
    sleep 1
  fi
done
[ -n "$copied" ] || die 1 "$vault changed while it was copied, 20 times; give a snapshot"
# Also the setgid bit that a volume of a cluster hands down, which a plain 0700 leaves.
find "$secrets" -type d -exec chmod u=rwx,go=,g-s {} +
find "$secrets" -type f -exec chmod 0600 {} +
find "$secrets/keys" "$secrets"/vault/*/kek -type f -exec chmod 0400 {} + 2>/dev/null || true

# Logs of deleted tenants lie beside the keys in the data folder.
closed=$(dirname "$(realpath "$keys")")/closed
mkdir "$work/data"
ln -s "$secrets/keys" "$work/data/keys"
started=$SECONDS
lethed_start "$work/data" --vault "$secrets/vault" --ballast 0 --log-level warning ||
  die 1 "no server starts over the copies"
lethe() { "$bin/lethe" --quiet "$@"; }
# members NAME: every value of a member, from JSON on standard input.
members() { sed -nE 's/.*"'"$1"'": ?"?([^",}]*)"?.*/\1/p'; }

back=0 deleted=0 memories=0 tokens=0 failed=0
fault() { echo "restore drill: FAILED: $*" >&2; failed=$((failed + 1)); }
for backup in "${found[@]}"; do
  tenant=$(basename "$backup")
  # A tenant that was deleted since has no vault any more, but its log, and must not come back.
  uid=$(sed -nE 's/^uid ([0-9a-f]{32})$/\1/p' "$backup/manifest")
  if [ -n "$uid" ] && [ ! -d "$secrets/vault/$uid" ]; then
    if [ ! -d "$closed/$tenant-$uid" ]; then
      fault "$tenant: the vault has nothing of it, and no log beside the keys says that it was deleted"
    elif lethe backup restore "$backup" >/dev/null 2>"$work/said"; then
      fault "$tenant: came back though its vault is gone"
    elif ! grep -qF "If the tenant was deleted, its keys are destroyed" "$work/said"; then
      fault "$tenant: is not refused as deleted: $(tail -n 1 "$work/said")"
    else
      echo "restore drill: $tenant: deleted since, and stays so"
      deleted=$((deleted + 1))
    fi
    continue
  fi
  if ! lethe --timeout 1h backup restore "$backup" -o json >"$work/restored" 2>"$work/said"; then
    fault "$tenant: $(tail -n 1 "$work/said")"
    continue
  fi
  bad=$failed
  if ! lethe memory list -t "$tenant" -o jsonl >"$work/memories" 2>"$work/said"; then
    fault "$tenant: memories: $(tail -n 1 "$work/said")"
    continue
  fi
  for memory in $(members name <"$work/memories"); do
    if ! lethe --timeout 1h verify "$tenant" "$memory" -o json >"$work/verified" 2>"$work/said"; then
      fault "$tenant: $memory: $(tail -n 1 "$work/said")"
      continue
    fi
    memories=$((memories + 1))
    for set in margin error reserve; do
      tokens=$((tokens + $(members "$set" <"$work/verified" | grep -xE '[0-9]+' || echo 0)))
    done
  done
  if [ -n "$key_file" ]; then pinned=$key_file; else
    pinned=$work/stated
    lethe log key "$tenant" -o jsonl | grep -oE '[^"]+\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+' | head -n 1 >"$pinned"
  fi
  # A file of pinned keys has those of all logs; the one that opens this log counts.
  rm -rf "$work/export"
  if ! lethe export "$tenant" --to "$work/export" >/dev/null 2>"$work/said"; then
    fault "$tenant: export: $(tail -n 1 "$work/said")"
  else
    verified=
    while IFS= read -r key; do
      [ -n "$key" ] || continue
      if "$bin/lethe-verify" export "$work/export" --key "$key" -q >"$work/said" 2>&1; then verified=yes; break; fi
    done <"$pinned"
    [ -n "$verified" ] || fault "$tenant: its log verifies with no key: $(tail -n 1 "$work/said")"
  fi
  if [ "$failed" -eq "$bad" ]; then
    back=$((back + 1))
    echo "restore drill: $tenant: back, with $(members reapplied <"$work/restored") certificates put back and $(members removed <"$work/restored") tokens taken out again"
  fi
done
# A whole backup has every tenant of its time.
for folder in "$secrets"/vault/*/; do
  uid=$(basename "$folder")
  [[ $uid =~ ^[0-9a-f]{32}$ ]] || continue
  grep -qsx "uid $uid" "${found[@]/%//manifest}" ||
    echo "restore drill: the vault has tenant $uid and this backup has not: it was made since"
done
lethed_stop || fault "the drill's server did not end in order"
echo "restore drill: $back of $((${#found[@]} - deleted)) tenants, $memories memories, $tokens tokens back and verified in $((SECONDS - started)) s"
[ "$failed" -eq 0 ]
