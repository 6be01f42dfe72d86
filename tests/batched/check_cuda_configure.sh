#!/usr/bin/env bash
# check_cuda_configure.sh ROOT: cmake/LetheCuda.cmake with compilers of all kinds: whether the CUDA backend is
# compiled, for which architectures, and what is said where it is not. No CUDA is needed.
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/project" "$work/toolkit/bin" "$work/toolkit/lib64"
cat >"$work/project/CMakeLists.txt" <<PROJECT
cmake_minimum_required(VERSION 3.25)
project(lethe_cuda_configuration LANGUAGES NONE)
option(LETHE_CUDA "" OFF)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
include("$root/cmake/LetheCuda.cmake")
message(STATUS "compiles: \${LETHE_CUDA_COMPILES}")
PROJECT

said=$work/said
tries=$work/tries
fail() { echo "$*"; cat "$said"; exit 1; }
# nvcc: a compiler with this body, which is told its arguments; each call is noted.
nvcc() {
  { echo '#!/usr/bin/env bash'; echo "echo \"\$*\" >>'$tries'"; cat; } >"$work/toolkit/bin/nvcc"
  chmod +x "$work/toolkit/bin/nvcc"
}
good='while [ $# -gt 1 ]; do [ "$1" != -o ] || : >"$2"; shift; done'
# configure STATUS FLAGS...: in the same build folder until fresh.
fresh() { rm -rf "$work/build"; : >"$tries"; }
configure() {
  local wanted=$1 status=0
  shift
  cmake -S "$work/project" -B "$work/build" "-DLETHE_NVCC=$work/toolkit/bin/nvcc" "$@" >"$said" 2>&1 || status=$?
  [ "$status" -eq "$wanted" ] || fail "cmake $* ended with $status, not $wanted"
  # CMake breaks the lines of a warning.
  tr -s ' \n' ' ' <"$said" >"$said.line"
}
says() { grep -qE -- "$1" "$said.line" || fail "configuring does not say: $1"; }
tried() { [ "$(wc -l <"$tries")" -eq "$1" ] || fail "nvcc was called $(wc -l <"$tries") times, not $1"; }

# No runtime beside it.
fresh
nvcc <<<"$good"
configure 0 -DLETHE_CUDA=ON
says 'Warning.*goes on without the CUDA backend: there is no libcudart_static.a beside .*/nvcc'
says 'compiles: OFF'
tried 0
: >"$work/toolkit/lib64/libcudart_static.a"

# One that works: tried once, as long as nothing is another.
fresh
configure 0
says 'CUDA backend: compiled for 90 and linked as a test alone'
says 'compiles: ON'
tried 1
grep -q -- '-std=c++20 .*arch=compute_90,code=sm_90' "$tries" || fail "tried with other flags: $(cat "$tries")"
configure 0
says 'compiles: ON'
tried 1

# The default follows LETHE_CUDA in the same folder; a choice stands until it is taken back.
configure 0 -DLETHE_CUDA=ON
says 'CUDA backend: .*/nvcc, architectures 80, 90, 100 '
tried 2
tail -n 1 "$tries" | grep -q 'arch=compute_100,code=sm_100 .*arch=compute_100,code=compute_100' || fail "not the newest"
configure 0 -DLETHE_CUDA_ARCHITECTURES='100;90'
says 'architectures 90, 100 '
configure 0
says 'architectures 90, 100 '
configure 0 -DLETHE_CUDA_ARCHITECTURES=
says 'architectures 80, 90, 100 '
configure 0 -DLETHE_CUDA=OFF
says 'compiled for 90 and'
configure 1 -DLETHE_CUDA_ARCHITECTURES=9.0
says 'LETHE_CUDA_ARCHITECTURES: "9.0" is no compute capability'
# The preset takes back what stands in its folder's cache.
grep -q '"LETHE_CUDA": "ON", "LETHE_CUDA_ARCHITECTURES": ""' "$root/CMakePresets.json" || fail "preset cuda keeps old choices"

# Ones that do not, in the words of nvcc; what has failed is tried again.
fresh
nvcc <<<'echo "host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later than 13 are not supported" >&2; exit 1'
configure 0 -DLETHE_CUDA=ON
says 'Warning.*the CUDA backend: .*/nvcc: the host compiler is newer than it knows.*NVCC_CCBIN.*: host_config.*unsupported GNU'
says 'compiles: OFF'
configure 0
tried 2
nvcc <<<"echo \"nvcc fatal   : Value 'c++20' is not defined for option 'std'\"; exit 1"
configure 0
says 'too old for C\+\+20 \(CUDA 12.8 or later\): nvcc fatal'
nvcc <<<"echo \"nvcc fatal   : Unsupported gpu architecture 'compute_100'\"; exit 1"
configure 0
says 'it does not know compute_100 \(CUDA 12.8 or later'
nvcc <<<'echo "nothing here; is known [1]"; exit 3'
configure 0 -DLETHE_CUDA=OFF
says 'not compiled: .*/nvcc: a small file does not compile \(ended with: 3\): nothing here; is known \[1\]'
says 'compiles: OFF'
nvcc <<<'true' # says nothing, makes nothing
configure 0
says 'compiles: OFF'
nvcc <<<"$good"
configure 0
says 'compiles: ON'
echo "cuda: configures with compilers that work, and says why others do not"
