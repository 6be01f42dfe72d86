#!/usr/bin/env bash
# gpu-check.sh [--dry-run] [--no-build] [--out FOLDER]: on a machine with an NVIDIA device, builds the CUDA
# backend (preset cuda, for this device alone), tests it, and measures it, in under 8 minutes. A line a claim:
#
#   ok|short|none CLAIM: FIGURE (bar BAR)
#
# none: not measured, the figure says why. Ends with 1 when any is short, with 2 when it cannot begin, else with
# 0; so also where there is no device, which is said in one line.
#
#   --dry-run      says what would be run, and runs nothing
#   --no-build     takes what is in build/cuda (or LETHE_BIN)
#   --out FOLDER   keeps what the steps print there
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() { sed -n '2,13s/^# \{0,1\}//p' deploy/gpu-check.sh >&2; exit 2; }
dry=
build=yes
out=
while [ $# -gt 0 ]; do
  case "$1" in
    --dry-run) dry=yes; shift ;;
    --no-build) build=; shift ;;
    --out) [ $# -ge 2 ] || usage; out=$2; shift 2 ;;
    *) usage ;;
  esac
done
# shellcheck source=tests/show/claims.sh
source tests/show/claims.sh
none() { printf 'none %s: %s (bar %s)\n' "$1" "$2" "$3"; }

seconds=460 # of the 8 minutes, with something left for the last step to end
left() { echo $((seconds - SECONDS)); }
bin=${LETHE_BIN:-$PWD/build/cuda/bin}

# The device's compute capability without the point, 90; nothing where there is no device.
capability() {
  command -v nvidia-smi >/dev/null || return 0
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n '1s/[^0-9]//gp' || true
}
architecture=$(capability)
if [ -z "$architecture" ] && [ -z "$dry" ]; then
  echo "none gpu-check: no NVIDIA device (nvidia-smi finds none), nothing was built (bar a device)"
  exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
[ -n "$out" ] || out=$scratch/out
[ -n "$dry" ] || mkdir -p "$out"

# run NAME LIMIT COMMAND...: its output to $out/NAME; 124 when it took longer than LIMIT, or than what is left. What
# then does not end by itself, as where it waits for a device, is killed after five seconds more.
run() {
  local name=$1 limit=$2
  shift 2
  if [ -n "$dry" ]; then
    printf 'would run, at most %d s:' "$limit"
    printf ' %q' "$@"
    printf '\n'
    return 0
  fi
  [ "$(left)" -gt 5 ] || { echo "no time left of 8 minutes" >"$out/$name"; return 124; }
  [ "$limit" -le "$(left)" ] || limit=$(left)
  local status=0
  # What bash says of a program that was killed is not for the reader.
  { timeout -v -k 5 "$limit" "$@" >"$out/$name" 2>&1 || status=$?; } 2>/dev/null
  # 137: killed by timeout, which says so and ends with it, or by somebody else.
  if [ "$status" -eq 137 ] && grep -q 'timeout: sending signal KILL' "$out/$name"; then status=124; fi
  return "$status"
}
last() { tail -n 1 "$out/$1" | cut -c1-200; }

# 1. Build.
if [ -n "$build" ]; then
  run configure 60 cmake --preset cuda "-DLETHE_CUDA_ARCHITECTURES=${architecture:-90}" ||
    { echo "gpu-check: cmake failed: $(last configure)" >&2; exit 2; }
  run build 240 cmake --build --preset cuda --parallel "$(nproc)" \
    --target cuda_probe batched_test lethe-bench ||
    { echo "gpu-check: the build failed or took too long: $(last build)" >&2; exit 2; }
fi
if [ -z "$dry" ]; then
  for program in cuda_probe batched_test lethe-bench; do
    [ -x "$bin/$program" ] || { echo "gpu-check: no $bin/$program" >&2; exit 2; }
  done
fi

# 2. The device answers.
if run probe 30 "$bin/cuda_probe"; then holds=0; else holds=1; fi
if [ -z "$dry" ]; then
  found=$(last probe)
  case "$found" in "no CUDA device: "*)
    echo "none gpu-check: $found (bar a device)"
    exit 0
  esac
  claim $holds "cuda: a small batch on the device" "$found" "solved"
fi

# 3. The suite: shapes, bad problems, 65,535 to 65,537 of them, the definition, differences of every derivative.
if run suite 150 "$bin/batched_test" '--gtest_filter=*cuda*:SelectBackend.*'; then holds=0; else holds=1; fi
if [ -z "$dry" ]; then
  tests=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\{0,1\}\.$/\1/p' "$out/suite")
  # Three are of the choice of a backend, and pass without one.
  [ "${tests:-0}" -gt 10 ] || holds=1
  claim $holds "cuda: the suite over the device" "${tests:-0} tests passed" "all, batch sizes 65535 to 65537 too"
  [ $holds -eq 0 ] || grep '^\[  FAILED  \]' "$out/suite" | head -n 5 || true
fi

# 4. compute-sanitizer on a part of it, which it makes a hundred times slower.
sanitizer=$(command -v compute-sanitizer || true)
[ -n "$sanitizer" ] || for place in "${CUDA_PATH:-/usr/local/cuda}"/bin "${CUDA_PATH:-/usr/local/cuda}"/compute-sanitizer; do
  [ -x "$place/compute-sanitizer" ] && sanitizer=$place/compute-sanitizer
done
for tool in memcheck racecheck initcheck; do
  if [ -z "$sanitizer" ] && [ -z "$dry" ]; then
    none "cuda: compute-sanitizer, $tool" "compute-sanitizer is not installed" "0 errors"
    continue
  fi
  status=0
  run "$tool" 40 "${sanitizer:-compute-sanitizer}" --tool "$tool" --error-exitcode 9 "$bin/batched_test" \
    '--gtest_filter=*AnEmptyMarginHasAnInterval/cuda*:*AMatrixOfThePointsGivesTheSame/cuda*:*TheSumOfWeightsHasNone/cuda*' ||
    status=$?
  [ -z "$dry" ] || continue
  if [ $status -eq 124 ]; then
    none "cuda: compute-sanitizer, $tool" "not done in its time" "0 errors"
  else
    claim $status "cuda: compute-sanitizer, $tool" "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/$tool" |
      tail -n 1 | sed 's/^=* //')" "0 errors"
  fi
done

# bench NAME LIMIT FLAGS...: the claims of a bench about the device.
bench() {
  local name=$1 limit=$2 status=0
  shift 2
  run "$name" "$limit" "$bin/lethe-bench" "$name" --claims "$scratch/$name" "$@" || status=$?
  [ -z "$dry" ] || return 0
  if [ $status -eq 124 ]; then
    none "$name" "not done in its time" "measured"
  elif grep ', cuda' "$scratch/$name" 2>/dev/null; then
    short=$((short + $(grep -c '^short .*, cuda' "$scratch/$name" || true)))
  else
    claim 1 "$name" "$(last "$name")" "measured"
  fi
}

# 5. Problems a second at n = 64, 128 and 256 in both precisions, against all cores of this machine's CPU.
bench batched-backends 90
# 6. 18,000 problems against the definition, and gradients.
bench batched-solutions 120

# 7. Tokens a second of a training step at 3.22M parameters, the problems solved by the device and the rest by the CPU.
bench train-backends 60
cat >"$scratch/softmax.py" <<'PYTHON'
# The same model with softmax in PyTorch: 4 layers, d = 256, 4 heads, block 256, batch 16, 256 characters.
import time, torch
from torch import nn
from torch.nn import functional as F
class Layer(nn.Module):
    def __init__(self, d=256, heads=4):
        super().__init__()
        self.heads, self.one, self.two = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.one(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.two(x))
class Model(nn.Module):
    def __init__(self, d=256, block=256):
        super().__init__()
        self.token, self.place = nn.Embedding(256, d), nn.Embedding(block, d)
        self.layers, self.norm = nn.Sequential(*[Layer(d) for _ in range(4)]), nn.LayerNorm(d)
    def forward(self, x):
        h = self.token(x) + self.place(torch.arange(x.shape[1], device=x.device))
        return self.norm(self.layers(h)) @ self.token.weight.t()
model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
x = torch.randint(256, (16, 257), device="cuda")
def step():
    loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    optimizer.zero_grad(); loss.backward(); optimizer.step()
for _ in range(20): step()
torch.cuda.synchronize(); begin = time.time()
for _ in range(200): step()
torch.cuda.synchronize()
count = sum(p.numel() for p in model.parameters())
print(f"{200 * 16 * 256 / (time.time() - begin):.0f} tokens a second, {count / 1e6:.2f}M parameters, fp32")
PYTHON
status=0
run torch 60 python3 "$scratch/softmax.py" || status=$?
if [ -z "$dry" ]; then
  if [ $status -eq 0 ]; then
    none "PyTorch softmax on the device, to compare with" "$(last torch)" "no claim"
  else
    none "PyTorch softmax on the device, to compare with" "$(last torch)" "torch with CUDA"
  fi
fi

[ -z "$dry" ] || exit 0
echo "gpu-check: $short short, $SECONDS s"
[ "$short" -eq 0 ]
