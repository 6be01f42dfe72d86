#!/usr/bin/env bash
# Installs the Debian 12 packages that Lethe builds and tests with. Safe to repeat: with everything
# there it only looks. Needs root, or sudo, when something is missing. docs/adr/0002 gives a line of
# reason for each library.
#
#   bash cmake/install-dependencies.sh            what the release build and its tests need
#   bash cmake/install-dependencies.sh --clang    the same, and clang++ for the clang presets
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache mold
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libeigen3-dev libsqlite3-dev libssl-dev libmpfr-dev libgmp-dev
  nlohmann-json3-dev libcjose-dev libcli11-dev libtomlplusplus-dev pkg-config
  prometheus-cpp-dev libcurl4-openssl-dev
  libboost-dev libgtest-dev libgmock-dev libbenchmark-dev libsvm-dev openssl sqlite3
  python3-yaml
)
case "${1:-}" in
  "") ;;
  --clang) packages+=(clang libclang-rt-14-dev clang-format) ;;
  *) echo "usage: $0 [--clang]" >&2; exit 2 ;;
esac

say() { echo "dependencies: $*"; }

command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || {
  say "apt-get not found; Lethe is built on Debian 12, install the like of: ${packages[*]}" >&2
  exit 1
}

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$state" = "install ok installed" ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  say "all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=(env DEBIAN_FRONTEND=noninteractive)
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    say "missing: ${missing[*]}; run as root, or install sudo" >&2
    exit 1
  }
  as_root=(sudo "${as_root[@]}")
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# apt_get ARGS...: quiet but for a line every 50 packages; one retry, since mirrors do hiccup; the whole
# output only when both tries failed.
apt_get() {
  local attempt
  for attempt in 1 2; do
    if "${as_root[@]}" apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        -o Acquire::Retries=2 "$@" 2>&1 </dev/null | tee "$log" | awk '
          /^Need to get/ { print "dependencies:   " $0; fflush() }
          /^Unpacking /  { if (++u % 50 == 0) { print "dependencies:   unpacked " u; fflush() } }
          /^Setting up / { if (++s % 50 == 0) { print "dependencies:   set up " s; fflush() } }'; then
      return 0
    fi
    if [ "$attempt" -eq 1 ]; then
      say "apt-get failed, trying once more in 5 s"
      sleep 5
    fi
  done
  cat "$log" >&2
  say "apt-get failed twice; the output is above" >&2
  return 1
}

say "reading the package lists"
# A list that cannot be read (of another vendor, say) need not matter; the next step finds out.
apt_get -o APT::Update::Error-Mode=any update || say "going on with the package lists there are"
say "installing ${#missing[@]} of ${#packages[@]} packages: ${missing[*]}" | fold -s -w 80
apt_get install --no-install-recommends "${missing[@]}"
say "done"
