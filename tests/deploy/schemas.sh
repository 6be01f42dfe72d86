#!/usr/bin/env bash
# Holds deploy/kubernetes against the schemas of Kubernetes, cert-manager, KEDA and the operator of Prometheus,
# and shows that they would see what is wrong. Needs node 20, npm and a network, so it is no part of
# tests/run.sh; the versions are those of tests/foreign/schemas/package-lock.json.
#
#   bash tests/deploy/schemas.sh
#
# Exit status: 0 all is valid; 1 something is not, which is said; 2 the packages cannot be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v node >/dev/null && command -v npm >/dev/null || { echo "schemas: needs node and npm" >&2; exit 2; }
cp tests/foreign/schemas/package.json tests/foreign/schemas/package-lock.json tests/foreign/schemas/.npmrc "$work"
(cd "$work" && npm ci --no-audit --no-fund --ignore-scripts --silent >npm.log 2>&1) ||
  { tail -n 3 "$work/npm.log" >&2; echo "schemas: the packages cannot be had" >&2; exit 2; }
validate() { node tests/foreign/schemas/validate.mjs "$work" "$@"; }

# What kubectl renders and what is kept are the same; tests/deploy/check_kubernetes.py sees to that.
validate tests/golden/kubernetes/*.yaml || exit 1

# planted NAME SED WORDS: a fault of one line, which is to be seen and said with these words.
names=() words=()
planted() {
  sed -E "$2" tests/golden/kubernetes/production.yaml >"$work/$1.yaml"
  ! cmp -s tests/golden/kubernetes/production.yaml "$work/$1.yaml" || { echo "schemas: $1: nothing planted"; exit 1; }
  names+=("$1") words+=("$3")
}
planted number 's/^(  replicas: )1$/\1"one"/' "replicas must be integer"
planted field 's/readOnlyRootFilesystem:/readOnlyRootFileSystem:/' "readOnlyRootFileSystem"
planted word 's/^(  concurrencyPolicy: )Forbid/\1Never/' "Never"
planted missing 's/^(  schedule:).*/\1/' "schedule"
planted monitor 's/^( *)- port: metrics$/\1- prot: metrics/;s/^(    )port: metrics$/\1prot: metrics/' "prot"
planted certificate 's/^(  )secretName: lethe-tls$/\1secretname: lethe-tls/' "secretName"
planted kind 's/^kind: ServiceMonitor$/kind: ServiceMonitors/' "no schema of"
files=("${names[@]/#/$work/}")
if validate "${files[@]/%/.yaml}" >"$work/said" 2>&1; then echo "schemas: planted faults are not seen"; exit 1; fi
for i in "${!names[@]}"; do
  grep -q -- "^${names[i]}.yaml: .*${words[i]}" "$work/said" ||
    { echo "schemas: ${names[i]}: not seen"; cat "$work/said"; exit 1; }
done
echo "schemas: ${#names[@]} planted faults are seen"
