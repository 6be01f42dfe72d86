#!/usr/bin/env bash
# Shows the whole idea on real data, on a Debian 12 machine with root or sudo and nothing prepared:
# installs what is missing, builds, starts a server on loopback, streams 2,481 visits of 446 patients with
# cirrhosis, asks, forgets one patient, verifies the certificate offline, restarts the server, shows that
# the patient is still gone, and stops the server.
#
#   bash deploy/quickstart.sh
#
# Safe to repeat: everything it makes is under build/release and var/quickstart; each run starts with an
# empty data folder (the data set already fetched is kept).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin=build/release/bin
work=var/quickstart
data=$work/data
source deploy/lib/lethed.sh

step() { printf '\n== %s\n' "$*"; }
# One paragraph an argument.
say() { printf '%s\n' "$@" | fold -s -w 80 | sed 's/ *$//'; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

# run PROGRAM ARGS...: prints the command as a person would type it, then runs it, with notes and errors
# among the output.
run() {
  local line='$' word
  for word in "$@"; do
    [ "$word" != "${key:-}" ] || word='"$KEY"'
    if [ $((${#line} + ${#word})) -gt 76 ]; then
      printf '%s \\\n' "$line"
      line='   '
    fi
    line+=" $word"
  done
  printf '%s\n' "$line"
  "$bin/$1" "${@:2}" 2>&1
}

# field NAME: the value of a string or number member of the JSON object on standard input.
field() { sed -nE 's/.*"'"$1"'": ?"?([^",}]*)"?.*/\1/p' | head -n 1; }

trap 'lethed_stop >/dev/null 2>&1 || true' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir -p "$work"
exec 9>"$work/lock"
flock -n 9 || die "another quickstart uses $work right now"

step "1/9  Packages"
bash cmake/install-dependencies.sh

step "2/9  Build (release)"
cmake --preset release >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; die "the configuration failed; its output is above"; }
export NINJA_STATUS='[%f/%t %es] '
build=(cmake --build --preset release --parallel "$(nproc)" --target lethed lethe lethe-verify)
if [ -t 1 ]; then
  "${build[@]}"
else
  # Without a terminal every twentieth line is progress enough; what else the build says is shown.
  "${build[@]}" | awk '!/^\[[0-9]+\// || ++n % 20 == 0 { print; fflush() }'
fi
step "3/9  Data: csl of the Debian package r-cran-timereg (no R needed)"
deb() { find "$work" -maxdepth 1 -name 'r-cran-timereg_*.deb' | sort | tail -n 1; }
fetch() {
  (cd "$work" && apt-get -o APT::Sandbox::User=root download r-cran-timereg) >"$work/apt.log" 2>&1
}
# A package fetched before is used again, unless it was fetched in part.
if [ -n "$(deb)" ] && ! dpkg --contents "$(deb)" >/dev/null 2>&1; then rm -f "$(deb)"; fi
if [ -z "$(deb)" ] && ! fetch; then
  say "The package lists are old or missing; reading them again."
  if [ "$(id -u)" -eq 0 ]; then apt-get -q update; else sudo apt-get -q update; fi
  fetch || { cat "$work/apt.log"; die "the package could not be fetched"; }
fi
rm -rf "$work/package"
dpkg -x "$(deb)" "$work/package"
source_file=$work/package/usr/lib/R/site-library/timereg/data/csl.txt.gz
[ -f "$source_file" ] || die "$(deb) holds no data/csl.txt.gz"
gzip -dc "$source_file" |
  awk -v queries="$work/queries.csv" -f deploy/lib/csl_visits.awk >"$work/visits.csv"
visits=$(($(wc -l <"$work/visits.csv") - 1))
patients=$(cut -d, -f2 "$work/visits.csv" | tail -n +2 | sort -u | wc -l)
say "$visits visits of $patients patients. Key: prothrombin index now, at the visit before and at\
 the start, age, years since the start (each scaled). Value: died (0 or 1), years from the visit\
 until death or last sight. Subject: the patient."

step "4/9  Server"
rm -rf "$data" "$data.log" "$work/certificates"
lethed_start "$data" 9>&-
say "lethed listens on $LETHE_ADDRESS, data in $data, log in $data.log"
export LETHE_TENANT=clinic LETHE_MEMORY=visits
run lethe tenant create clinic
# Whoever verifies later pins this key now.
key=$("$bin/lethe" tenant get -o json | field verification_key)
printf '%s\n' "$key" >"$work/pinned.key"
say "The key is pinned now: KEY=\$(cat $work/pinned.key)"
run lethe memory create visits --kernel rbf --gamma 0.2 --capacity 100 \
  --key-dimension 5 --value-dimension 2

step "5/9  Stream all visits in"
keys=prot,prot.prev,prot.base,age,time
run lethe insert --file "$work/visits.csv" --id-column visit --subject-column patient \
  --key-columns "$keys" --value-columns died,years
run lethe memory describe
before=$("$bin/lethe" memory describe -o json | field state_digest)

step "6/9  Ask: recovering, getting worse, and like nobody here"
ask=(query --file "$work/queries.csv" --key-columns "$keys" --top 3)
run lethe "${ask[@]}"
say "Readout: share that died and years left, averaged over the visits that carry weight, by\
 likeness. Inside or outside: whether the memory has seen the like. Each visit listed carried that\
 share of the answer."
visit=$("$bin/lethe" "${ask[@]}" -o jsonl | sed -nE '1s/.*"tokens":\[\{"id":"([^"]*)".*/\1/p')
patient=${visit%-*}
[ -n "$patient" ] || die "no visit carried the first answer"

step "7/9  Forget patient $patient, whose visit carried the most of the first answer"
say "Without --yes the plan is shown and nothing happens:"
run lethe forget --subject "$patient" </dev/null && die "forgot without --yes"
say "" "With --yes:"
run lethe forget --subject "$patient" --yes
run lethe "${ask[@]}"
after=$("$bin/lethe" memory describe -o json | field state_digest)
[ "$before" != "$after" ] || die "the state did not change"

step "8/9  Verify the certificate offline, against the key pinned in step 4"
run lethe export --to "$work/certificates"
run lethe-verify export "$work/certificates" --key "$key"
certificate=$work/certificates/certificates/000/000000.envelope.json
say "For people: $work/certificates/report.html"
run lethe-verify certificate "$certificate" --key "$key"
awk '{ at = index($0, "\"payload\":\"") + 200; old = substr($0, at, 1)
       printf "%s", substr($0, 1, at - 1) (old == "A" ? "B" : "A") substr($0, at + 1) }' \
  "$certificate" >"$work/tampered.json"
say "" "A copy with one character of the signed text changed:"
run lethe-verify certificate "$work/tampered.json" --quiet --key "$key" &&
  die "a tampered certificate was accepted"

step "9/9  Restart: is patient $patient still gone?"
lethed_stop || die "lethed did not end by itself"
lethed_start "$data" 9>&-
restarted=$("$bin/lethe" memory describe -o json | field state_digest)
say "State digest before the restart  $after" "State digest after it             $restarted"
[ "$after" = "$restarted" ] || die "the digests differ"
say "They are equal."
run lethe forget --id "$visit" --dry-run
if "$bin/lethe" query --file "$work/queries.csv" --key-columns "$keys" --top 1000 -o jsonl |
    grep -qF "\"id\":\"$patient-"; then
  die "patient $patient is back"
fi
say "Among all visits that carry the three answers, none is of patient $patient. As a last check the\
 server solves from scratch and compares every bit:"
run lethe memory describe --refit
lethed_stop || die "lethed did not end by itself"

step "Done in $SECONDS s; the server is stopped. To go on:"
cat <<TEXT
  $bin/lethed --data $data --insecure-loopback &
  export LETHE_TENANT=clinic LETHE_MEMORY=visits
  $bin/lethe memory describe
  $bin/lethe certificate show 0
README.md has more. To remove everything: rm -rf var/quickstart
TEXT
