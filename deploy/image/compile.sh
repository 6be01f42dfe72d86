#!/usr/bin/env bash
# compile.sh PRESET JOBS BUILT OUT: the first stage of the Dockerfile. Builds the programs, or takes those of the folder
# BUILT, and leaves in OUT what goes into the image (usr/) and the Debian packages that the programs need there (packages).
set -euo pipefail
preset=$1 jobs=$2 built=$3 out=$4
[ ! -x /usr/local/cuda/bin/nvcc ] || PATH=$PATH:/usr/local/cuda/bin
if [ "$preset" = cuda ] && ! command -v nvcc >/dev/null; then
  echo "compile: PRESET=cuda needs nvcc; give a Debian 12 with it as BUILD_BASE" >&2
  exit 1
fi
programs=(lethed lethe lethe-verify lethe-worker)
if [ -z "$built" ]; then
  cmake --preset "$preset" -DLETHE_TESTS=OFF -DLETHE_BENCHMARKS=OFF
  NINJA_STATUS='[%f/%t %es] ' cmake --build --preset "$preset" --parallel "${jobs:-$(nproc)}" --target "${programs[@]}"
  ccache --show-stats 2>/dev/null || true
  built=build/$preset/bin
fi
# A configuration that finds no nvcc which works goes on without it, and the image would be called what it is not.
if [ "$preset" = cuda ]; then
  said=$(CUDA_VISIBLE_DEVICES='' timeout 60 "$built/lethe-worker" --server 127.0.0.1:1 --backend cuda 2>&1 || true)
  case "$said" in
    *"no CUDA device"*) ;;
    *) printf 'compile: PRESET=cuda, and the worker has no CUDA backend: %s\n' "$said" >&2; exit 1 ;;
  esac
fi
for program in "${programs[@]}"; do install -D -s -m 755 "$built/$program" "$out/usr/bin/$program"; done
# The same places as `cmake --install` has.
install -D -m 755 -t "$out/usr/share/lethe/deploy" deploy/backup.sh deploy/restore_drill.sh
install -D -m 644 -t "$out/usr/share/lethe/deploy/lib" deploy/lib/lethed.sh
install -D -m 644 -t "$out/usr/share/doc/lethe" LICENSE SECURITY.md
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
