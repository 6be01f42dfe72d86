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
source deploy/lib/main_job.sh

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

main_job

step "Done in $SECONDS s; the server is stopped. To go on:"
cat <<TEXT
  $bin/lethed --data $data --insecure-loopback &
  export LETHE_TENANT=clinic LETHE_MEMORY=visits
  $bin/lethe memory describe
  $bin/lethe certificate show 0
README.md has more. To remove everything: rm -rf var/quickstart
TEXT
