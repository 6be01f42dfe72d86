#!/usr/bin/env bash
# deployment.sh [--image] [--schemas]: shows what is claimed of running Lethe, from the built tree. A line a claim:
#
#   ok|short CLAIM: FIGURE (bar BAR)
#
# and exit status 1 when any is short. Needs build/release (tests/run.sh), sqlite3, openssl and python3-yaml.
#
#   --image     also builds the image and tries it (deploy/image/build_test.sh: root, buildah, debootstrap, minutes)
#   --schemas   also holds the manifests against the schemas of Kubernetes (tests/deploy/schemas.sh: npm, a network)
#   LETHE_OLD_BIN   programs that write the format before (docs/upgrading.md, "How it is tested", has how to build them),
#                   for the upgrade and the way back; without it both are the same
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD image= schemas=
for word in "$@"; do
  case "$word" in
    --image) image=yes ;;
    --schemas) schemas=yes ;;
    *) sed -n '2,12s/^# \{0,1\}//p' tests/show/deployment.sh >&2; exit 2 ;;
  esac
done
new=$root/build/release/bin
old=${LETHE_OLD_BIN:-$new}
bin=$new
source deploy/lib/lethed.sh
source tests/show/claims.sh
for program in lethe lethed lethe-verify; do
  [ -x "$bin/$program" ] || { echo "deployment: no $bin/$program; run tests/run.sh first" >&2; exit 2; }
done
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
  lethed_kill
  rm -rf "$work"
}
trap cleanup EXIT
field() { sed -nE 's/.*"'"$1"'": ?"?([^",}]*)"?.*/\1/p' | head -n 1; }
lethe() { "$new/lethe" -q "$@"; }
digest() { lethe memory describe "${2:-visits}" -t "$1" -o json | field state_digest; }
# TENANT TENANT [MEMORY]: two states, not two answers without one.
same_state() {
  local one other
  one=$(digest "$1" "${3:-visits}")
  other=$(digest "$2" "${3:-visits}")
  [[ $one =~ ^[0-9a-f]{64}$ && $one = "$other" ]]
}
left_out=0
not_shown() { left_out=$((left_out + 1)); echo "   not shown: $1"; }
make() { lethe tenant create "$1" >/dev/null && lethe memory create visits -t "$1" --gamma 0.7 --capacity 40 --key-dimension 2 --value-dimension 1 >/dev/null; }
token() { printf '{"id":"visit-%d","subject":"subject-%d","key":[%d.%02d,%d.%02d],"value":[%d]}\n' "$1" $(($1 / 4)) \
  $(($1 * 7 % 5)) $(($1 * 37 % 100)) $(($1 * 3 % 4)) $(($1 * 61 % 100)) $(($1 % 9)); }

# The format in a tenant's file, which is closed.
format() { od -An -tu1 -j 60 -N 4 "$work/data/tenants/$1/tenant.db" | awk '{ print $4 }'; }
encoded() { # TENANT: a memory with an encoder, and tokens in it: what only the format of today can hold
  lethe memory create deep -t "$1" --encoder "$work/encoder.bin" --capacity 6 >/dev/null &&
    head -n 40 "$work/tokens.ndjson" | lethe insert -t "$1" -m deep -f - --format ndjson >/dev/null
}
tar -xzOf tests/golden/stores/format-4.tar.gz ./encoder.bin >"$work/encoder.bin"

# A server at one address whatever program it is, as a service has one.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start() { # PROGRAMS [FLAG...]
  local programs=$1
  shift
  "$programs/lethed" --data "$work/data" --vault "$work/vault" --listen "127.0.0.1:$port" --insecure-loopback "$@" 2>>"$work/log" &
  server=$!
  export LETHE_ADDRESS=127.0.0.1:$port
  until lethe health --timeout 2s >/dev/null 2>&1; do kill -0 "$server" || { tail -n 3 "$work/log" >&2; exit 1; }; sleep 0.1; done
}
stop() { local status=0; kill -TERM "$server"; wait "$server" || status=$?; server=; return "$status"; }

# --- Upgrade and way back, under clients that repeat what was not acknowledged.
start "$old"
make clinic
tokens=6000
for ((i = 1; i <= tokens; i++)); do token $i; done >"$work/tokens.ndjson"
# A tenth of it is there before, for the erasures meanwhile.
head -n 600 "$work/tokens.ndjson" | lethe insert -t clinic -m visits -f - --format ndjson -o json >"$work/first"
make other
head -n 100 "$work/tokens.ndjson" | lethe insert -t other -m visits -f - --format ndjson >/dev/null
other=$(digest other)
key=$(lethe tenant get clinic -o json | field verification_key)
"$old/lethe" -q backup create --out "$work/before" >/dev/null
# The stream is fed over some seconds, so that it is open at each stop.
(tail -n +601 "$work/tokens.ndjson" | awk '{ print } NR % 300 == 0 { fflush(); system("sleep 0.5") }' |
  lethe --timeout 120s insert -t clinic -m visits -f - --format ndjson -o json >"$work/streamed" 2>"$work/stream-said") &
stream=$!
(for subject in 3 40 77 110 140; do
  for ((tries = 0; tries < 100; tries++)); do
    lethe forget -t clinic -m visits --subject "subject-$subject" --yes --request-id "ticket-$subject" >/dev/null 2>&1 && break
    sleep 0.3
  done
  echo "subject-$subject"
  sleep 1
done >"$work/forgotten") &
forgets=$!
stops=0 orderly=0
for programs in "$new" "$old" "$new"; do
  sleep 2
  kill -0 "$stream" 2>/dev/null && stops=$((stops + 1))
  stop && orderly=$((orderly + 1))
  start "$programs"
done
# Its tenant takes the format of today meanwhile.
kill -0 "$stream" 2>/dev/null && encoded clinic && raised=yes || raised=
status=0
wait "$stream" || status=$?
wait "$forgets"
inserted=$(field inserted <"$work/streamed")
unchanged=$(field unchanged <"$work/streamed")
[ "$status" -eq 0 ] && [ "$stops" -ge 2 ] && [ "$orderly" -eq 3 ] && holds=0 || { holds=1; tail -n 2 "$work/stream-said" >&2; }
if [ "$old" = "$new" ]; then replaced="by the same programs: no upgrade"; else replaced="upgrade, back, upgrade"; fi
claim $holds "server replaced three times ($replaced) under a stream" \
  "$orderly orderly stops, $stops with the stream open, the stream ended with status $status: ${inserted:-0} inserted, ${unchanged:-0} found there" \
  "3, 2 or more, 0"
kept=$(awk -F'"' 'NR == FNR { gone[$1]; next } !($8 in gone)' "$work/forgotten" "$work/tokens.ndjson" | tee "$work/kept.ndjson" | wc -l)
held=0
for set in margin error reserve; do held=$((held + $(lethe memory describe visits -t clinic -o json | field $set))); done
[ "$held" -eq "$kept" ] && [ "$(wc -l <"$work/forgotten")" -eq 5 ] && holds=0 || holds=1
claim $holds "no acknowledged token lost, no erased one back" "$held tokens there" "$kept"
make fresh
lethe insert -t fresh -m visits -f "$work/kept.ndjson" --format ndjson >/dev/null
encoded fresh
same_state clinic fresh && same_state clinic fresh deep && holds=0 || holds=1
claim $holds "the state, against a memory that was given the retained tokens alone" "$(digest clinic | cut -c 1-16)" "$(digest fresh | cut -c 1-16)"
lethe export clinic --to "$work/export" >/dev/null
"$new/lethe-verify" export "$work/export" --key "$key" -q >/dev/null 2>&1 && holds=0 || holds=1
claim $holds "its log over all of it" "$(lethe tenant get clinic -o json | field certificate_count) certificates$([ $holds -eq 0 ] && echo ', verified')" "verified"
stop
[ "$raised" = yes ] && [ "$(format clinic) $(format other)" = "5 4" ] && holds=0 || holds=1
claim $holds "the format of its file, raised under the stream by a memory with an encoder; of another tenant" \
  "$(format clinic), $(format other)" "5, 4"

# --- The way back from the format of today, as docs/upgrading.md has it.
if [ "$old" != "$new" ]; then
  before=$(sha256sum <"$work/data/tenants/clinic/tenant.db")
  start "$old"
  lethe memory describe visits -t clinic >/dev/null 2>&1 && refused=no || refused=yes
  named=$(grep -o 'clinic/tenant.db: written by a newer release (format 5, this release knows up to 4)' "$work/log" | sort -u | wc -l)
  [ $refused = yes ] && [ "$named" -eq 1 ] && [ "$(digest other)" = "$other" ] &&
    [ "$before" = "$(sha256sum <"$work/data/tenants/clinic/tenant.db")" ] && holds=0 || holds=1
  claim $holds "the older program with that tenant: refused, both numbers named, the file untouched, others served" \
    "refused $refused, named: $([ "$named" -eq 1 ] && echo 'format 5, knows up to 4' || echo no)" "yes"
  "$old/lethe" -q backup restore "$work/before/clinic" -o json >"$work/restored"
  make compare
  head -n 600 "$work/tokens.ndjson" | awk -F'"' 'NR == FNR { gone[$1]; next } !($8 in gone)' "$work/forgotten" - |
    lethe insert -t compare -m visits -f - --format ndjson >/dev/null
  rm -rf "$work/export"
  lethe export clinic --to "$work/export" >/dev/null
  "$old/lethe-verify" export "$work/export" --key "$key" -q >/dev/null 2>&1 && verified=yes || verified=no
  wanted=$(digest compare)
  went=$(digest clinic)
  stop
  start "$new"
  [ -n "$wanted" ] && [ "$went" = "$wanted" ] && [ "$(digest clinic)" = "$wanted" ] && [ $verified = yes ] && holds=0 || holds=1
  claim $holds "the backup from before, restored by the older program: its tokens without who was erased since, the log continued; and forth again" \
    "$(field reapplied <"$work/restored") certificates put back, $(field removed <"$work/restored") tokens taken out again, digest ${went:0:16}, log verified $verified" "digest ${wanted:0:16}, yes"
  stop
else
  not_shown "an upgrade and the way back, which want LETHE_OLD_BIN"
fi

# --- A file of a newer format: refused, named, left as it is; everybody else is served.
cp -r "$work/data" "$work/data.kept"
sqlite3 "$work/data/tenants/fresh/tenant.db" 'PRAGMA user_version=99' >/dev/null
before=$(sha256sum <"$work/data/tenants/fresh/tenant.db")
start "$new"
lethe memory describe visits -t fresh >/dev/null 2>&1 && refused=no || refused=yes
served=$(digest clinic)
stop
named=$(grep -c 'format 99, this release knows up to' "$work/log" || true)
[ $refused = yes ] && [ -n "$served" ] && [ "$named" -ge 1 ] && [ "$before" = "$(sha256sum <"$work/data/tenants/fresh/tenant.db")" ] && holds=0 || holds=1
claim $holds "a tenant of a newer format: refused, both numbers named, the file untouched, others served" "refused $refused, named $named times" "yes"
rm -rf "$work/data"
mv "$work/data.kept" "$work/data"

# --- SIGTERM during a stream, with the settings of the cluster.
settings() { sed -nE "s/^$1 = \"([^\"]*)\".*/\1/p" deploy/kubernetes/base/lethed.toml; }
grace=$(sed -nE 's/^ *terminationGracePeriodSeconds: ([0-9]+)$/\1/p' deploy/kubernetes/base/server.yaml)
start "$new" --drain-delay "$(settings drain-delay)" --drain-timeout "$(settings drain-timeout)"
make drained
mkfifo "$work/feed"
lethe --timeout 120s insert -t drained -m visits -f "$work/feed" --format ndjson -o json >"$work/drained" 2>/dev/null &
stream=$!
(for ((i = 1; i <= 4000; i++)); do token $i; [ $((i % 50)) -ne 0 ] || sleep 0.2; done >"$work/feed") &
feeder=$!
sleep 3
began=$(date +%s%N)
kill -TERM "$server"
not_serving=
for ((tries = 0; tries < 30; tries++)); do
  lethe health --timeout 1s >"$work/health" 2>/dev/null || { not_serving=$(cat "$work/health"); break; }
  sleep 0.1
done
status=0
wait "$server" || status=$?
server=
took=$(awk -v a="$began" -v b="$(date +%s%N)" 'BEGIN { printf "%.1f", (b - a) / 1e9 }')
[ "$status" -eq 0 ] && at_most "$took" "$((grace - 5))" && [ "$not_serving" = NOT_SERVING ] && holds=0 || holds=1
claim $holds "SIGTERM during a stream" "health $not_serving, exit status $status after $took s" "NOT_SERVING, 0 within $((grace - 5)) s (grace $grace s)"
start "$new"
wait "$stream" && wait "$feeder" && status=0 || status=1
held=0
for set in margin error reserve; do held=$((held + $(lethe memory describe visits -t drained -o json | field $set))); done
[ $status -eq 0 ] && [ "$held" -eq 4000 ] && holds=0 || holds=1
claim $holds "the stream goes on at the next start" "$held tokens" "4000"

# --- Backup and the restore drill of docs/backups.md.
mkdir "$work/backups"
for tenant in "$work"/data/tenants/*/; do lethe tenant get "$(basename "$tenant")" -o json | field verification_key; done >"$work/pinned"
LETHE_BIN=$new LETHE_KEY_FILE=$work/pinned bash deploy/backup.sh "$work/backups" 14 >"$work/said" && holds=0 || holds=1
claim $holds "deploy/backup.sh" "$(sed -nE 's/.* holds (.*)/\1/p' "$work/said")" "exit status 0"
lethe forget -t clinic -m visits --subject subject-9 --yes >/dev/null
LETHE_BIN=$new bash deploy/restore_drill.sh --backups "$work/backups" --keys "$work/data/keys" --vault "$work/vault" \
  --key-file "$work/pinned" >"$work/said" 2>&1 && holds=0 || { holds=1; cat "$work/said" >&2; }
claim $holds "deploy/restore_drill.sh, beside the server" "$(tail -n 1 "$work/said" | sed 's/^restore drill: //')" "all tenants"
LETHE_BIN=$new "$new/lethe" doctor --data "$work/data" --vault "$work/vault" --backups "$work/backups" -o jsonl >"$work/said" && holds=0 || holds=1
claim $holds "lethe doctor" "$(grep -c '"ok"' "$work/said") ok, $(grep -c '"warn"' "$work/said") warn, $(grep -c '"fail"' "$work/said" || true) fail" "no failure"
stop

# --- What the unit of systemd lets lethed do, against what it does: with strace, as an ordinary user.
if command -v strace >/dev/null && command -v systemd-analyze >/dev/null; then
  as_user=()
  [ "$(id -u)" -ne 0 ] || as_user=(setpriv --reuid 65532 --regid 65532 --clear-groups)
  mkdir -m 777 "$work/traced"
  chmod a+rx "$work"
  "${as_user[@]}" strace -f -qq -o "$work/traced/trace" "$new/lethed" --data "$work/traced/data" \
    --vault "$work/traced/vault" --listen "127.0.0.1:$port" --insecure-loopback 2>>"$work/log" &
  server=$!
  for ((tries = 0; tries < 300; tries++)); do lethe health --timeout 2s >/dev/null 2>&1 && break; sleep 0.1; done
  make traced
  head -n 60 "$work/tokens.ndjson" | lethe insert -t traced -m visits -f - --format ndjson >/dev/null
  lethe forget -t traced -m visits --subject subject-3 --yes >/dev/null
  lethe query -t traced -m visits --key 0.1,2.5 >/dev/null
  lethe backup create --out "$work/traced/backup" >/dev/null
  lethe export traced --to "$work/traced/export" >/dev/null
  lethe key rotate --yes >/dev/null
  lethe key rewrap --yes >/dev/null
  lethe verify traced visits >/dev/null
  lethe backup restore "$work/traced/backup/traced" --replace >/dev/null
  kill -TERM "$(pgrep -P "$server")"
  status=0
  wait "$server" || status=$?
  server=
  python3 - "$work/traced/trace" deploy/systemd/lethed.service >"$work/said" <<'PYTHON' && holds=0 || holds=1
import re, subprocess, sys
listed = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True).stdout
sets, current = {}, None
for line in listed.splitlines():
    if line.startswith("@"):
        current = sets.setdefault(line.strip(), [])
    elif line.strip() and not line.strip().startswith("#") and current is not None:
        current.append(line.strip())
def members(name):
    return set().union(*(members(part) if part.startswith("@") else {part} for part in sets[name]))
trace = open(sys.argv[1], errors="replace").read()
used = set(re.findall(r"^\d+ +([a-z0-9_]+)\(", trace, re.M))
unit = open(sys.argv[2], encoding="utf-8").read()
allowed = set()
filters = re.findall(r"^SystemCallFilter=(~?)(.*)$", unit, re.M)
for without, names in filters:
    calls = set().union(*(members(name) if name.startswith("@") else {name} for name in names.split()))
    allowed = allowed - calls if without else allowed | calls
refused = used - allowed
denied = "MemoryDenyWriteExecute=yes" in unit
executable = len(re.findall(r"PROT_WRITE\|PROT_EXEC", trace))
print(f"{len(used)} kinds of calls, refused {sorted(refused)}, {executable} mappings to write and execute")
sys.exit(bool(refused) or executable > 0 or not denied or not filters or len(used) < 40)
PYTHON
  [ "$status" -eq 0 ] || holds=1
  claim $holds "system calls of lethed, against SystemCallFilter and MemoryDenyWriteExecute of lethed.service" "$(cat "$work/said")" "none refused"
else
  not_shown "what lethed.service refuses against what lethed does, which wants strace and systemd-analyze"
fi

# --- Alerts, manifests, compose and units.
bash tests/deploy/promtool.sh >"$work/said" 2>&1 && holds=0 || { holds=1; tail -n 3 "$work/said" >&2; }
claim $holds "deploy: alerts, by promtool" "$(tail -n 1 "$work/said" | sed 's/^[a-z]*: //')" "each comes when it should"
for check in kubernetes host; do
  python3 "tests/deploy/check_$check.py" . "$new" >"$work/said" 2>&1 && holds=0 || holds=1
  claim $holds "deploy: $check" "$(tail -n 1 "$work/said" | sed 's/^[a-z]*: //')" "all hold, all planted faults seen"
done
if [ -n "$schemas" ]; then
  bash tests/deploy/schemas.sh >"$work/said" 2>&1 && holds=0 || holds=1
  claim $holds "deploy: schemas of Kubernetes, cert-manager, KEDA, operator of Prometheus" "$(sed 's/^schemas: //' "$work/said" | paste -sd';')" "all valid"
else
  not_shown "the manifests against the schemas of Kubernetes, which wants --schemas"
fi
if [ -n "$image" ]; then
  bash deploy/image/build_test.sh >"$work/said" 2>&1 && holds=0 || holds=1
  grep -E '^(ok|short|built|   )' "$work/said" || true
  # Its last line, which it comes to only with everything tried.
  ended=$(tail -n 1 "$work/said")
  [ "$ended" = "image: 0 short" ] || holds=1
  claim $holds "the image, built, and the main job run in it" "$ended" "image: 0 short"
else
  not_shown "the image, which wants --image"
fi
echo "deployment: $short short, $left_out not shown"
[ "$short" -eq 0 ]
