#!/usr/bin/env bash
# promtool.sh: runs check_alerts.py with Prometheus' own promtool, which parses the alert rules and evaluates them
# over the series of alerts_test.yaml. Where it is not on the machine, the Debian package prometheus is fetched (19 MB)
# and unpacked below var/, and not installed: it would start a service.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! command -v promtool >/dev/null; then
  if [ ! -x var/promtool/usr/bin/promtool ]; then
    rm -rf var/promtool
    mkdir -p var/promtool
    (cd var/promtool && apt-get -q -o APT::Sandbox::User=root download prometheus) >var/promtool/said 2>&1 ||
      { cat var/promtool/said >&2; echo "promtool: the package prometheus could not be fetched" >&2; exit 2; }
    dpkg -x var/promtool/prometheus_*.deb var/promtool
    rm var/promtool/prometheus_*.deb
  fi
  export PATH=$PWD/var/promtool/usr/bin:$PATH
fi
python3 tests/deploy/check_alerts.py deploy/alerts/lethe.rules.yml docs/runbook.md tests/deploy/alerts_test.yaml
