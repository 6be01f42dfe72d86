#!/usr/bin/env bash
# compile.sh PRESET JOBS OUT: the first stage of the Dockerfile. Builds the programs and leaves in OUT what goes into
# the image (usr/) and the names of the Debian packages that the programs need there (packages).
set -euo pipefail
preset=$1 jobs=${2:-} out=$3
if [ "$preset" = cuda ] && ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
  echo "compile: PRESET=cuda needs nvcc; give a Debian 12 with it as BUILD_BASE" >&2
  exit 1
fi
cmake --preset "$preset" -DLETHE_TESTS=OFF -DLETHE_BENCHMARKS=OFF
# The client library and the documents are no part of the image; what `all` builds is what --install wants.
NINJA_STATUS='[%f/%t %es] ' cmake --build --preset "$preset" --parallel "${jobs:-$(nproc)}"
ccache --show-stats 2>/dev/null || true
staged=$(mktemp -d)
cmake --install "build/$preset" --prefix "$staged" --strip >/dev/null
mkdir -p "$out/usr/bin" "$out/usr/share/lethe" "$out/usr/share/doc/lethe"
cp -a "$staged"/bin/. "$out/usr/bin/"
cp -a "$staged/share/lethe/." "$out/usr/share/lethe/"
cp LICENSE SECURITY.md "$out/usr/share/doc/lethe/"
mkdir -p "$out/usr/share/lethe/image"
cp deploy/image/finish.sh deploy/image/sbom.sh "$out/usr/share/lethe/image/"

# Each library that a program loads belongs to a package; their versions are those that were compiled with.
for program in "$out"/usr/bin/*; do ldd "$program"; done | awk '$3 ~ /^\// { print $3 }' | sort -u |
  while IFS= read -r library; do
    { dpkg-query -S "$library" || dpkg-query -S "$(readlink -f "$library")" ||
      dpkg-query -S "/usr$(readlink -f "$library")"; } 2>/dev/null | head -n 1 ||
      { echo "compile: $library belongs to no package" >&2; exit 1; }
  done | cut -d: -f1 | sort -u >"$out/packages"
[ -s "$out/packages" ]
while IFS= read -r package; do
  printf '%s=%s\n' "$package" "$(dpkg-query -W -f='${Version}' "$package:$(dpkg --print-architecture)")"
done <"$out/packages" >"$out/packages.new"
mv "$out/packages.new" "$out/packages"
find "$out" -type d -exec chmod 0755 {} +
