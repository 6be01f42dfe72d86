#!/usr/bin/env bash
# Installs the Debian 12 packages that Lethe builds with. Safe to repeat: with everything there it
# only checks. Needs root or sudo when something is missing.
set -euo pipefail

packages=(
  build-essential clang cmake ninja-build ccache mold pkg-config git ca-certificates
  libgrpc-dev libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libabsl-dev libeigen3-dev libsqlite3-dev libssl-dev libmpfr-dev libgmp-dev libboost-dev
  nlohmann-json3-dev libcli11-dev libgtest-dev libgmock-dev libbenchmark-dev
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "dependencies: all ${#packages[@]} packages present"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "dependencies: missing ${missing[*]}; run as root or install sudo" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "dependencies: installing ${#missing[@]} of ${#packages[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"
