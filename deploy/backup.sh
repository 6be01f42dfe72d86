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
# folder of the programs. Exit status: 0, or that of the first step that failed; nothing is removed then.
set -euo pipefail
umask 077
[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '5,6s/^# \{0,1\}//p' "$0" >&2; exit 64; }
folder=$1 keep=${2:-14}
[[ $keep =~ ^[1-9][0-9]{0,4}$ ]] || { echo "backup: KEEP must be a number from 1" >&2; exit 64; }
lethe=${LETHE_BIN:+$LETHE_BIN/}lethe
# How long nothing may move; the server answers nothing while it copies a large tenant.
timeout=${LETHE_BACKUP_TIMEOUT:-15m}

[ -d "$folder" ] || { echo "backup: $folder: no such folder" >&2; exit 2; }
name=$(date -u +%Y%m%dT%H%M%SZ)
part=$folder/.$name.part
# What an interrupted run left; one that still runs holds the lock.
exec 9>"$folder/.lock"
flock -n 9 || { echo "backup: another one is being made in $folder" >&2; exit 75; }
rm -rf "$folder"/.*.part
trap 'rm -rf "$part"' EXIT
mkdir "$part"

status=0
"$lethe" --quiet --timeout "$timeout" backup create --out "$part" -o jsonl || status=$?
[ "$status" -eq 0 ] || { echo "backup: failed with exit status $status" >&2; exit "$status"; }
if [ -n "$(find "$part" -mindepth 1 -maxdepth 1 -print -quit)" ]; then
  if [ -n "${LETHE_KEY_FILE:-}" ]; then
    keys=$LETHE_KEY_FILE
  else
    keys=$part/.keys
    "$lethe" --quiet tenant list -o jsonl | sed -nE 's/.*"verification_key":"([^"]*)".*/\1/p' >"$keys"
  fi
  "$lethe" backup verify "$part" --key-file "$keys" -o jsonl >/dev/null || status=$?
  rm -f "$part/.keys"
  [ "$status" -eq 0 ] || { echo "backup: what was written does not verify" >&2; exit "$status"; }
fi
sync -f "$part"
mv "$part" "$folder/$name"
sync -f "$folder"

# Only what bears such a name is ever removed.
mapfile -t old < <(find "$folder" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' |
  grep -xE '[0-9]{8}T[0-9]{6}Z' | sort -r | tail -n "+$((keep + 1))")
for backup in "${old[@]}"; do rm -rf "${folder:?}/$backup"; done
echo "backup: $folder/$name holds $(find "$folder/$name" -mindepth 1 -maxdepth 1 -type d | wc -l) tenants; ${#old[@]} older ones removed"
