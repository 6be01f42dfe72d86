#!/usr/bin/env bash
# What Lethe claims about its log of deletions, measured here, judged by programs that share no code with it.
# A line a claim, `ok|short CLAIM: FIGURE (bar BAR)`; exits 1 when any is short. Needs a build (bash
# tests/run.sh), openssl, Go with Debian's golang-golang-x-mod-dev, Chromium, node and npm; what is missing of Go,
# Chromium and the npm packages is installed, the last into a temporary folder. About 10 minutes on two cores.
#
#   bash tests/show/deletion-log.sh [--full]
#
#   --full    ten times the random damage
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
full=
case "${1:-}" in
  "") ;;
  --full) full=yes ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
certificates=${LETHE_CERTIFICATES:-100000}

bin=${LETHE_BIN:-$root/build/release/bin}
for program in lethe-verify log_tool audit_flip_test audit_tamper_test audit_log_test audit_certificate_test; do
  [ -x "$bin/$program" ] || { echo "deletion-log: no $bin/$program; run tests/run.sh first" >&2; exit 2; }
done
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work" ${fast:+"$fast"}' EXIT
# Where the large log lies: in RAM when there is room, so that no other disk traffic is measured.
fast=
room=$(df --output=avail -B 1M /dev/shm 2>/dev/null | tail -n 1 || echo 0)
[ "${room:-0}" -lt 8192 ] || fast=$(mktemp -d -p /dev/shm)
large=${fast:-$work}

source tests/show/claims.sh
# field NAME LINE: the word after NAME.
field() { awk -v name="$1" '{ for (i = 1; i < NF; i++) if ($i == name) { print $(i + 1); exit } }' <<<"$2"; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }'; }

# --- The judges.
install() { # PACKAGE...
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install \
    --no-install-recommends "$@" >"$work/apt" 2>&1 || { tail -n 3 "$work/apt" >&2; return 1; }
}
go_judge() {
  command -v go >/dev/null && [ -d /usr/share/gocode/src/golang.org/x/mod/sumdb/tlog ] ||
    install golang-go golang-golang-x-mod-dev || return 1
  (cd tests/foreign/golog && env GO111MODULE=off GOFLAGS= GOPATH=/usr/share/gocode GOCACHE="$work/gocache" \
    go build -o "$work/golog" .)
}
node_judge() {
  mkdir "$work/npm"
  (cd "$work/npm" && npm install --no-audit --no-fund --no-save --silent --cache "$work/npm-cache" \
    @sigstore/verify@4.1.3 @sigstore/bundle@5.0.1 >"$work/npm-log" 2>&1) ||
    { tail -n 3 "$work/npm-log" >&2; return 1; }
}
browser_judge() {
  [ -n "${CHROMIUM:-}" ] || compgen -c | grep -qxE 'chromium|chromium-browser|google-chrome' || install chromium
}
go_judge || { echo "deletion-log: no Go judge" >&2; exit 2; }
node_judge || { echo "deletion-log: no node judge" >&2; exit 2; }
browser_judge || { echo "deletion-log: no browser" >&2; exit 2; }
sigstore() { node tests/foreign/sigstore/verify.js "$work/npm" "$@"; }

# --- The vectors.
for suite in "audit_log_test note, checkpoint, tree and tile vectors" "audit_certificate_test golden certificates"; do
  read -r program name <<<"$suite"
  holds=0
  "$bin/$program" >"$work/$program" 2>&1 || holds=1
  claim $holds "vectors, byte for byte ($name)" \
    "$(sed -n 's/^\[  PASSED  \] \([0-9]* tests\).*/\1 passed/p' "$work/$program")" "all"
done

# --- A log of 1,000 certificates with two hand-overs of the key, before the foreign judges.
"$bin/log_tool" append "$large/small" 1000 350 >/dev/null
"$bin/log_tool" export "$large/small" "$work/export" >/dev/null
mapfile -t keys < <("$bin/log_tool" key "$large/small")
comma=$(IFS=,; echo "${keys[*]}")
holds=0
"$bin/lethe-verify" export "$work/export" --key "${keys[0]}" -q >"$work/out" || holds=1
claim $holds "lethe-verify, first key pinned, two hand-overs followed" "$(head -n 1 "$work/out")" "verified"
holds=0
bash tests/show/report_check.sh "$work/export/report.html" >"$work/out" 2>&1 || holds=1
claim $holds "report.html in a browser" "$(tail -n 1 "$work/out")" "no fault"
holds=0
"$work/golog" check "$work/export" "${keys[@]}" >"$work/out" || holds=1
claim $holds "golang.org/x/mod/sumdb: export" "$(cat "$work/out")" "1000 of each"
holds=0
"$bin/log_tool" proofs "$large/small" >"$large/proofs"
"$work/golog" proofs "$large/proofs" >"$work/out" || holds=1
grep -q '^ok: 500500 ' "$work/out" || holds=1
claim $holds "golang.org/x/mod/sumdb: our proofs between any two sizes" "$(cat "$work/out")" "500500"
rm -f "$large/proofs"
holds=0
sigstore "$comma" "$work"/export/certificates/*/*.sigstore.json >"$work/out" || holds=1
claim $holds "@sigstore/verify: bundles" "$(tail -n 1 "$work/out")" "1000 of 1000"

# --- What each of them can see of a tampered export, a copy of a smaller one at a time.
seen=0 tampered=0
refused() { # refused NAME COMMAND...
  tampered=$((tampered + 1))
  if "${@:2}" >"$work/out" 2>&1; then
    echo "   not refused: $1"
  else
    seen=$((seen + 1))
  fi
}
"$bin/log_tool" append "$large/tiny" 300 130 >/dev/null
"$bin/log_tool" export "$large/tiny" "$work/tiny" >/dev/null
mapfile -t keys < <("$bin/log_tool" key "$large/tiny")
comma=$(IFS=,; echo "${keys[*]}")
"$work/golog" check "$work/tiny" "${keys[@]}" >/dev/null # what is refused below was good
copy() { rm -rf "$work/bad"; cp -r "$work/tiny" "$work/bad"; }
# flip FILE OFFSET: another byte there.
flip() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
  printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
c=certificates/000
golog_refuses() { refused "$1" "$work/golog" check "$work/bad" "${keys[@]}"; }
copy; flip "$work/bad/tile/0/000" 40; golog_refuses "a hash in a tile"
copy; flip "$work/bad/tile/1/000.p/1" 20; golog_refuses "a hash in an upper tile"
copy; flip "$work/bad/tile/entries/001.p/44" 500; golog_refuses "a byte of an entry"
copy; flip "$work/bad/checkpoint" 2; golog_refuses "the origin"
copy; sed -i '2s/.*/299/' "$work/bad/checkpoint"; golog_refuses "the size"
copy; sed -i '2s/.*/0/' "$work/bad/checkpoint"; golog_refuses "size 0"
copy; head -c -9 "$work/tiny/checkpoint" >"$work/bad/checkpoint"; golog_refuses "a truncated checkpoint"
copy; cp "$work/tiny/$c/000008.tlog-proof" "$work/bad/$c/000007.tlog-proof"; golog_refuses "another one's proof"
copy; sed -i '2s/7/8/' "$work/bad/$c/000007.tlog-proof"; golog_refuses "another index"
copy; sed -i '3d' "$work/bad/$c/000007.tlog-proof"; golog_refuses "a proof without a hash"
copy; cp "$work/tiny/$c/000008.envelope.json" "$work/bad/$c/000007.envelope.json"; golog_refuses "a swapped body"
copy; flip "$work/bad/$c/000007.envelope.json" 900; golog_refuses "a byte of a certificate"
copy; rm "$work/bad/$c/000000.envelope.json"; golog_refuses "no head"
copy; rm "$work/bad/$c/000299.tlog-proof"; golog_refuses "no tail"
copy; rm "$work/bad/tile/entries/001.p/44"; golog_refuses "no middle"
copy; refused "other keys pinned" "$work/golog" check "$work/bad" \
  "$("$bin/log_tool" append "$large/other" 1 >/dev/null; "$bin/log_tool" key "$large/other")"
claim $((seen != tampered)) "golang.org/x/mod/sumdb refuses tampered exports" "$seen of $tampered" "all"
seen=0 tampered=0
sigstore_refuses() { refused "$1" sigstore "$comma" "$work/bad.json"; }
bundle=$work/tiny/$c/000007.sigstore.json
other=$work/tiny/$c/000008.sigstore.json
# part NAME FILE: a member's value.
part() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$2"; }
for name in payload sig canonicalizedBody keyId; do
  awk -v RS= -v a="$(part $name "$bundle")" -v b="$(part $name "$other")" \
    '{ i = index($0, a); if (i && a != b) print substr($0, 1, i - 1) b substr($0, i + length(a)) }' \
    "$bundle" >"$work/bad.json"
  # All bundles of a log have its name; nothing to swap.
  if [ -s "$work/bad.json" ]; then sigstore_refuses "$name of another bundle"; fi
done
sed 's/"hashes":\["[^"]*",/"hashes":[/' "$bundle" >"$work/bad.json"; sigstore_refuses "a hash left out"
sed 's/"logIndex":"7"/"logIndex":"8"/g' "$bundle" >"$work/bad.json"; sigstore_refuses "another index"
sed 's/\\n300\\n/\\n301\\n/' "$bundle" >"$work/bad.json"; sigstore_refuses "another size in the checkpoint"
sed 's/\\n300\\n/\\n0\\n/' "$bundle" >"$work/bad.json"; sigstore_refuses "size 0 in the checkpoint"
sed 's/"tlogEntries":\[{.*}\]/"tlogEntries":[]/' "$bundle" >"$work/bad.json"; sigstore_refuses "no entry"
cp "$bundle" "$work/bad.json"; flip "$work/bad.json" 60; sigstore_refuses "a byte of the payload"
cp "$bundle" "$work/bad.json"
refused "other keys pinned" sigstore "$("$bin/log_tool" key "$large/other")" "$work/bad.json"
claim $((seen != tampered)) "@sigstore/verify refuses tampered bundles" "$seen of $tampered" "all"

# --- Our own negative suite.
holds=0
"$bin/audit_tamper_test" >"$work/tamper" 2>&1 || holds=1
claim $holds "lethe-verify: structural attacks, each with its reason" \
  "$(sed -n 's/^\[  PASSED  \] \([0-9]* tests\).*/\1 passed/p' "$work/tamper")" "all"
damages=3000
[ -z "$full" ] || damages=30000
TMPDIR=${fast:-$work} LETHE_FLIPS=${LETHE_FLIPS:-all} LETHE_GOOD_EXPORTS=${LETHE_GOOD_EXPORTS:-1000} LETHE_DAMAGES=$damages \
  "$bin/audit_flip_test" >"$work/flips" 2>&1 && holds=0 || holds=1
# What the test says that it did, not its exit status alone: it does less when the environment says so.
flips=$(sed -n 's/^flipped=\([0-9]*\) of=\([0-9]*\).*/\1 of \2/p' "$work/flips")
all=1
[ "$holds" -ne 0 ] || [ -z "$flips" ] || [ "${flips% of *}" -ne "${flips#* of }" ] || [ "${flips% of *}" -eq 0 ] || all=0
claim $all "every byte of a small export flipped: refused, by the file and for a reason of that file" \
  "${flips:-nothing}" "all"
accepted=$(sed -n 's/^accepted=\([0-9]*\) of=\([0-9]*\).*/\1 of \2/p' "$work/flips")
all=1
[ "$holds" -ne 0 ] || [ "$accepted" != "1000 of 1000" ] || all=0
claim $all "good exports accepted" "${accepted:-nothing}" "1000 of 1000"

# --- 16 threads with 8 forgets each on one tenant: two certificates a forget, the second about its keys.
"$bin/log_tool" race "$large/race" 16 8 >/dev/null
"$bin/log_tool" export "$large/race" "$work/race.tar" >/dev/null
holds=0
"$bin/lethe-verify" export "$work/race.tar" --key "$("$bin/log_tool" key "$large/race")" -q >"$work/out" || holds=1
grep -q '^VERIFIED  256 certificates' "$work/out" || holds=1
claim $holds "16 threads with 8 forgets each: one chain" "$(head -n 1 "$work/out")" "256 certificates"

# --- A large log.
line=$("$bin/log_tool" append "$large/large" "$certificates")
holds=0
at_most "$(field ratio "$line")" 1.5 || holds=1
claim $holds "$certificates certificates: cost of the last 1,000 appends over that of the first" \
  "$(field ratio "$line") ($(field first "$line") s and $(field last "$line") s)" "1.5"
key=$("$bin/log_tool" key "$large/large")
exporting=999999
for _ in 1 2 3; do
  rm -f "$large/large.tar"
  exported=$("$bin/log_tool" export "$large/large" "$large/large.tar")
  took=$(field seconds "$exported")
  if at_most "$took" "$exporting"; then exporting=$took; fi
done
megabytes=$(($(stat -c %s "$large/large.tar") / 1000000))
# The best of three, since other work on the machine disturbs a run of seconds. On a busy machine threads gain
# nothing: this wants a quiet one.
best_sum=999999 best_verify=999999
for _ in 1 2 3; do
  begin=$(now); sha256sum "$large/large.tar" >/dev/null; took=$(since "$begin")
  if at_most "$took" "$best_sum"; then best_sum=$took; fi
  begin=$(now)
  "$bin/lethe-verify" export "$large/large.tar" --key "$key" -q >"$work/out" || best_verify=failed
  took=$(since "$begin")
  if [ "$best_verify" != failed ] && at_most "$took" "$best_verify"; then best_verify=$took; fi
done
for what in "export $exporting" "verification $best_verify"; do
  read -r name seconds <<<"$what"
  ratio=$(awk -v a="$seconds" -v b="$best_sum" 'BEGIN { printf "%.2f", a / b }')
  holds=0
  [ "$seconds" != failed ] && at_most "$ratio" 4 || holds=1
  claim $holds "$certificates certificates: $name over sha256sum of the same bytes" \
    "$ratio ($seconds s, sha256sum $best_sum s, $megabytes MB)" "4"
done
holds=0
at_most "$(field peak "$exported")" 128 || holds=1
claim $holds "$certificates certificates: memory of the export, the service included" \
  "$(field peak "$exported") MiB" "128"
holds=0
[ -s "$work/out" ] && grep -q "^VERIFIED  $certificates certificates" "$work/out" || holds=1
# The kernel's own account of the most that was in RAM, asked for until the end.
peak=0
"$bin/lethe-verify" export "$large/large.tar" --key "$key" -q >"$work/out" &
pid=$!
while kill -0 "$pid" 2>/dev/null; do
  most=$(awk '/^VmHWM:/ { print int($2 / 1024) }' "/proc/$pid/status" 2>/dev/null || true)
  peak=${most:-$peak}
  sleep 0.1
done
wait "$pid" || holds=1
at_most "$peak" 64 || holds=1
claim $holds "$certificates certificates: memory of the verifier" "$peak MiB" "64"

echo "deletion-log: $short short"
[ "$short" -eq 0 ]
