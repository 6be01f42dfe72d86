#!/usr/bin/env bash
# check_cuda.sh PROBE: a program with the CUDA backend starts where no part of CUDA is installed, and says
# what it found: it needs no library of CUDA, since the runtime is inside it.
set -euo pipefail
probe=$1

# cuBLAS, cuDNN, the shared runtime, the driver: where one is missing the program would not reach main.
needed=$(readelf -d "$probe" | awk '/NEEDED/ { print $NF }')
[ -n "$needed" ] || { echo "readelf shows no libraries: the check is blind"; exit 1; }
unwanted=$(grep -Ei 'cuda|cublas|cudnn|nvidia|nvrtc|curand' <<<"$needed" || true)
[ -z "$unwanted" ] || { echo "$probe needs: ${unwanted//$'\n'/ }"; exit 1; }
symbols=$(nm "$probe")
grep -qi ' t cudaLaunchKernel$' <<<"$symbols" || { echo "$probe: the CUDA runtime is not inside"; exit 1; }

said=$("$probe") || { echo "$probe ends with $?: $said"; exit 1; }
case "$said" in
  "cuda, "* | "no CUDA device: "*) echo "cuda: needs no library of CUDA; says \"$said\"" ;;
  *) echo "$probe says: $said"; exit 1 ;;
esac
# Without a device that is visible it says so too, whether there is one or not.
said=$(CUDA_VISIBLE_DEVICES="" "$probe") || { echo "$probe without devices ends with $?: $said"; exit 1; }
[[ $said == "no CUDA device: "* ]] || { echo "$probe without devices says: $said"; exit 1; }
