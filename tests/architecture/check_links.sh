#!/usr/bin/env bash
# check_links.sh BIN: lethe-verify must run where no server ever ran, so it needs neither gRPC, nor
# Protobuf, nor SQLite, and cannot open a connection. The server is looked at by the same means, to show
# that the means would see it.
set -euo pipefail
bin=$1

libraries() { ldd "$1" | awk '{ print $1 }'; }
# The functions that a program takes from the system and that reach the network.
network() { nm -D --undefined-only "$1" | grep -oE ' (socket|connect|bind|listen|getaddrinfo)(@|$)' || true; }

unwanted=$(libraries "$bin/lethe-verify" | grep -E '^lib(grpc|gpr|protobuf|sqlite3|address_sorting)' || true)
[ -z "$unwanted" ] || { echo "lethe-verify needs:" $unwanted; exit 1; }
unwanted=$(network "$bin/lethe-verify")
[ -z "$unwanted" ] || { echo "lethe-verify calls:" $unwanted; exit 1; }

libraries "$bin/lethed" | grep -q '^libgrpc' || { echo "lethed shows no libgrpc: the check is blind"; exit 1; }
echo "links: lethe-verify needs no gRPC, no Protobuf, no SQLite and no socket"
