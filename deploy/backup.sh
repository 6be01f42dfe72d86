#!/usr/bin/env bash
# Makes a backup of every tenant in a new folder of its own, checks it, and removes the oldest ones.
# Kubernetes' CronJob, the timer of systemd and people run the same script.
#
#   backup.sh FOLDER [KEEP]
#
# FOLDER/20260131T020000Z/<tenant> is a backup (docs/backups.md); of these the newest KEEP
# (14) stay. LETHE_ADDRESS, LETHE_CA, LETHE_TOKEN_FILE and so on say where the server is (docs/access.md);
# the token needs the role *:admin. LETHE_KEY_FILE names a file with the pinned keys of the tenants' logs, a
# line each: with it the check trusts nobody; without it, the keys that the server states. LETHE_BIN is the
# folder of the programs. Exit status: 0, or that of the first step that failed: then what succeeded lies in
# FOLDER/20260131T020000Z.partial, of which the newest KEEP stay, and no whole backup is removed. The next whole one
# removes the partial ones.
set -euo pipefail
umask 077
[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '5,6s/^# \{0,1\}//p' "$0" >&2; exit 64; }
folder=$1 keep=${2:-14}
[[ $keep =~ ^[1-9][0-9]{0,4}$ ]] || { echo "backup: KEEP must be a number from 1" >&2; exit 64; }
lethe=${LETHE_BIN:+$LETHE_BIN/}lethe
# How long nothing may move; the server answers nothing while it copies a large tenant.
timeout=${LETHE_BACKUP_TIMEOUT:-15m}

[ -d "$folder" ] || { echo "backup: $folder: no such folder" >&2; exit 2; }
# What an interrupted run left; one that still runs holds the lock.
exec 9>"$folder/.lock"
flock -n 9 || { echo "backup: another one is being made in $folder" >&2; exit 75; }
rm -rf "$folder"/.*.part
# A second has one backup.
until name=$(date -u +%Y%m%dT%H%M%SZ) && [ ! -e "$folder/$name" ]; do sleep 0.1; done
part=$folder/.$name.part
trap 'rm -rf "$part"' EXIT
mkdir "$part"

status=0
"$lethe" --quiet --timeout "$timeout" backup create --out "$part" -o jsonl || status=$?
[ "$status" -eq 0 ] || echo "backup: failed with exit status $status" >&2
mapfile -t made < <(find "$part" -mindepth 1 -maxdepth 1 -type d | sort)
if [ ${#made[@]} -gt 0 ]; then
  if [ -n "${LETHE_KEY_FILE:-}" ]; then
    keys=$LETHE_KEY_FILE
  else
    keys=$part/.keys
    "$lethe" --quiet tenant list -o jsonl | sed -nE 's/.*"verification_key":"([^"]*)".*/\1/p' >"$keys"
  fi
  good=0
  for backup in "${made[@]}"; do
    verified=0
    "$lethe" backup verify "$backup" --key-file "$keys" -o jsonl >/dev/null || verified=$?
    if [ "$verified" -eq 0 ]; then good=$((good + 1)); continue; fi
    echo "backup: $(basename "$backup"): what was written does not verify" >&2
    rm -rf "$backup"
    [ "$status" -ne 0 ] || status=$verified
  done
  rm -f "$part/.keys"
  # One tenant that fails costs the others nothing; but what lacks one takes no whole backup's place.
  if [ "$status" -ne 0 ] && [ "$good" -gt 0 ]; then
    sync -f "$part"
    mv "$part" "$folder/$name.partial"
    sync -f "$folder"
    mapfile -t old < <(find "$folder" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' |
      grep -xE '[0-9]{8}T[0-9]{6}Z\.partial' | sort -r | tail -n "+$((keep + 1))")
    for backup in "${old[@]}"; do rm -rf "${folder:?}/$backup"; done
    echo "backup: $folder/$name.partial holds the $good tenants that succeeded; no whole backup was removed" >&2
  fi
fi
[ "$status" -eq 0 ] || exit "$status"
sync -f "$part"
mv "$part" "$folder/$name"
sync -f "$folder"

# Only what bears such a name is ever removed.
mapfile -t old < <(find "$folder" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' |
  grep -xE '[0-9]{8}T[0-9]{6}Z' | sort -r | tail -n "+$((keep + 1))")
for backup in "${old[@]}"; do rm -rf "${folder:?}/$backup"; done
find "$folder" -mindepth 1 -maxdepth 1 -type d -regextype posix-extended -regex '.*/[0-9]{8}T[0-9]{6}Z\.partial' \
  -exec rm -rf {} +
echo "backup: $folder/$name holds $(find "$folder/$name" -mindepth 1 -maxdepth 1 -type d | wc -l) tenants; ${#old[@]} older ones removed"
