#!/usr/bin/env bash
# server.sh [--full]: shows what is claimed of the server, from the built tree. A line a claim:
#
#   ok|short CLAIM: FIGURE (bar BAR)
#
# and exit status 1 when any is short. Needs build/release (tests/run.sh), node, npm, curl and openssl; the
# foreign client comes from npm. A quiet machine: ratios of times are among the claims.
#
#   default   of the fuzzing, a replay of the committed inputs
#   --full    also builds the fuzz targets with clang++ and runs each for ten minutes (tests/fuzz)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
case "$*" in
  "") full= ;;
  --full) full=yes ;;
  *) sed -n '2,10s/^# \{0,1\}//p' tests/show/server.sh >&2; exit 2 ;;
esac

bin=$root/build/release/bin
source deploy/lib/lethed.sh
for program in lethe lethed lethe-verify server_load server_stream access_rpc_test fuzz_replay; do
  [ -x "$bin/$program" ] || { echo "server: no $bin/$program; run tests/run.sh first" >&2; exit 2; }
done
for program in node npm curl openssl; do
  command -v "$program" >/dev/null || { echo "server: needs $program" >&2; exit 2; }
done
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; lethed_kill; rm -rf "$work"' EXIT

source tests/show/claims.sh
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 >= b + 0) }'; }
# json NAME...: the value at that path of the document on standard input.
json() {
  node -e 'let v = JSON.parse(require("fs").readFileSync(0)); for (const n of process.argv.slice(1)) v = v?.[n];
    console.log(typeof v === "object" ? JSON.stringify(v) : v)' "$@"
}
# http_port DATA: where the server that was started there last serves HTTP.
http_port() { sed -n 's/.*"serving_http".*"port":\([0-9]*\).*/\1/p' "$1.log" | tail -n 1; }

# --- A foreign client.
mkdir "$work/npm"
(cd "$work/npm" && npm install --no-audit --no-fund --no-save --silent --cache "$work/npm-cache" \
  @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1 >"$work/npm-log" 2>&1) ||
  { tail -n 3 "$work/npm-log" >&2; echo "server: no foreign client" >&2; exit 2; }
lethed_start "$work/foreign"
mkdir "$work/exported"
node tests/foreign/grpcjs/client.js "$work/npm" proto "$LETHE_ADDRESS" "$work/exported" >"$work/grpcjs" 2>"$work/err" &&
  holds=0 || holds=1
[ "$(value streamed "$work/grpcjs")" = 1000 ] && [ "$(value queried "$work/grpcjs")" = 50 ] &&
  [ "$(value erased "$work/grpcjs")" = 44 ] || holds=1
claim $holds "@grpc/grpc-js: insert, stream, query, stream of queries, forget, export" \
  "$(value streamed "$work/grpcjs") streamed, $(value queried "$work/grpcjs") queried, $(value erased "$work/grpcjs") erased, $(value exported_files "$work/grpcjs") files$(sed 's/^/; /' "$work/err" | head -n 1)" \
  "1000, 50, 44 (the subject's), no fault"
"$bin/lethe-verify" export "$work/exported" --key "$(value verification_key "$work/grpcjs")" -q >"$work/out" 2>&1 &&
  holds=0 || holds=1
claim $holds "@grpc/grpc-js: what it exported verifies offline" "$(head -n 1 "$work/out")" "verified"
lethed_stop

# --- curl: the calls in JSON, and an OpenDSR erasure from the request to the signed callback.
authority() { # NAME: a certificate authority of our own
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" \
    -keyout "$work/$1.key" -out "$work/$1.pem" 2>/dev/null
}
certificate() { # NAME AUTHORITY ALTERNATIVE-NAMES
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$work/$1.key" \
    -out "$work/$1.csr" 2>/dev/null
  openssl x509 -req -in "$work/$1.csr" -CA "$work/$2.pem" -CAkey "$work/$2.key" -CAcreateserial -days 1 \
    -extfile <(echo "subjectAltName=$3") -out "$work/$1.pem" 2>/dev/null
}
authority authority
certificate processor authority DNS:lethe.example
certificate controller authority DNS:localhost,IP:127.0.0.1
mkdir "$work/callbacks"
node tests/foreign/opendsr/receiver.js "$work/controller.key" "$work/controller.pem" "$work/callbacks" &
pids+=($!)
for ((tries = 0; tries < 100; tries++)); do [ -s "$work/callbacks/port" ] && break; sleep 0.1; done
controller=localhost:$(cat "$work/callbacks/port")
# Links in callbacks begin with this address, so the port is known beforehand.
base=http://127.0.0.1:$(node -e 'const s = require("net").createServer();
  s.listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
lethed_start "$work/web" --http-listen "${base#http://}" --public-url "$base" --dsr-domain lethe.example --dsr-key "$work/processor.key" \
  --dsr-certificate "$work/processor.pem" --callback-host "$controller" --callback-ca "$work/authority.pem" \
  --callback-insecure-loopback
# post PATH: sends standard input; the answer's status goes to $work/status.
post() {
  curl -s -o "$work/answer" -D "$work/headers" -w '%{http_code}' -H 'Content-Type: application/json' --data-binary @- "$base$1" \
    >"$work/status"
  cat "$work/answer"
}
echo '{"name":"clinic"}' | post /v1/tenants >/dev/null
echo '{"name":"visits","config":{"kernel":{"rbf":{"gamma":0.5}},"capacity":8,"keyDimension":2,"valueDimension":1}}' |
  post /v1/tenants/clinic/memories >/dev/null
inserted=$(awk 'BEGIN {
    srand(3); printf "{\"tokens\":["
    for (i = 0; i < 60; i++)
      printf "%s{\"id\":\"t%d\",\"key\":[%.4f,%.4f],\"value\":[%d],\"subject\":\"subject-%d\"}", i ? "," : "", i, rand(), rand(), i, i % 6
    printf "]}" }' | post /v1/tenants/clinic/memories/visits:insert | json inserted)
answers=$(echo '{"queries":[{"values":[0.5,0.5]}]}' | post /v1/tenants/clinic/memories/visits:query | json results length)
erased=$(echo '{"subject":"subject-1"}' | post /v1/tenants/clinic/memories/visits:forget | json erased)
verdict=$(json verdict <"$work/answer")
holds=0
[ "$inserted" = 60 ] && [ "$answers" = 1 ] && [ "$erased" = 10 ] && [ "$verdict" = VERDICT_PROVEN ] || holds=1
claim $holds "curl: Insert, Query and Forget in JSON" "$inserted inserted, $answers answer, $erased erased, $verdict" \
  "60, 1, 10, proven"

id=$(node -e 'console.log(require("crypto").randomUUID())')
received=$(printf '{"regulation":"gdpr","subject_request_id":"%s","subject_request_type":"erasure","submitted_time":"%s",
  "subject_identities":[{"identity_type":"controller_customer_id","identity_value":"subject-2","identity_format":"raw"}],
  "status_callback_urls":["https://%s/opendsr"],"api_version":"2.0"}' "$id" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$controller" |
  post /tenants/clinic/v1/opendsr_requests | json subject_request_id)
holds=0
[ "$(cat "$work/status")" = 201 ] && [ "$received" = "$id" ] || holds=1
claim $holds "curl: an OpenDSR erasure is received" "status $(cat "$work/status")" "201 with its id"

# The certificate that signs is fetched as a controller does, and must lead to the authority.
pem=$(curl -s "$base/v1/discovery" | json processor_certificate)
curl -s "$pem" -o "$work/fetched.pem"
holds=0
openssl verify -CAfile "$work/authority.pem" -verify_hostname lethe.example "$work/fetched.pem" >"$work/out" 2>&1 || holds=1
claim $holds "OpenDSR: the processor's certificate, from /v1/discovery" "$(sed 's/.*: //' "$work/out" | tail -n 1)" "OK"
openssl x509 -in "$work/fetched.pem" -pubkey -noout >"$work/public.pem"
# signed HEADERS BODY: whether the signature in those headers is over that body, by that certificate.
signed() {
  sed -n 's/^x-opendsr-signature: *\([^\r]*\)\r\{0,1\}$/\1/Ip' "$1" | base64 -d >"$work/signature" 2>/dev/null
  grep -qi '^x-opendsr-processor-domain: *lethe\.example' "$1" &&
    openssl dgst -sha256 -verify "$work/public.pem" -signature "$work/signature" "$2" >/dev/null 2>&1
}
signed "$work/headers" "$work/answer" && holds=0 || holds=1
claim $holds "OpenDSR: openssl verifies the answer's signature" "$([ $holds -eq 0 ] && echo verified || echo refused)" "verified"

completed= count=0
for ((tries = 0; tries < 300; tries++)); do
  for body in "$work"/callbacks/*.body; do
    [ -e "$body" ] || continue
    if [ "$(json request_status <"$body")" = completed ]; then completed=$body; fi
  done
  [ -z "$completed" ] || break
  sleep 0.1
done
verified=0
for body in "$work"/callbacks/*.body; do
  [ -e "$body" ] || continue
  count=$((count + 1))
  signed "${body%.body}.headers" "$body" && verified=$((verified + 1))
done
holds=0
[ -n "$completed" ] && [ "$verified" -eq "$count" ] && [ "$(json results_count <"$completed")" = 10 ] &&
  [ "$(json subject_request_id <"$completed")" = "$id" ] || holds=1
claim $holds "OpenDSR: callbacks over HTTPS, the last says completed, openssl verifies each signature" \
  "$verified of $count verified, $([ -n "$completed" ] && json results_count <"$completed" || echo 0) tokens erased" "all, 10 tokens"
if [ -n "$completed" ]; then
  altered=$work/altered
  sed 's/"results_count":10/"results_count":11/' "$completed" >"$altered"
  signed "${completed%.body}.headers" "$altered" && holds=1 || holds=0
  claim $holds "OpenDSR: an altered callback" "$([ $holds -eq 0 ] && echo refused || echo verified)" "refused"
  # The certificates of the erasure, from the link in the callback, against the exported log.
  curl -s "$(json results_url <"$completed")" -o "$work/results"
  key=$("$bin/lethe" tenant get clinic -o json | sed -nE 's/.*"verification_key": ?"([^"]*)".*/\1/p')
  "$bin/lethe" export --tenant clinic --to "$work/clinic.tar" >/dev/null
  "$bin/lethe-verify" export "$work/clinic.tar" --key "$key" -q >"$work/out" 2>&1 && holds=0 || holds=1
  mkdir "$work/clinic"
  tar -xf "$work/clinic.tar" -C "$work/clinic"
  # The id of a certificate is the SHA-256 of its signed envelope, which its bundle has byte for byte.
  json certificates 0 envelope <"$work/results" | base64 -d >"$work/envelope" || holds=1
  found=
  if [ "$(sha256sum <"$work/envelope" | cut -d' ' -f1)" = "$(json certificates 0 id <"$work/results")" ] &&
    grep -rqFf "$work/envelope" "$work/clinic/certificates"; then
    found=yes
  fi
  [ -n "$found" ] || holds=1
  claim $holds "OpenDSR: the certificate linked from the callback is in the log, which verifies offline" \
    "$(head -n 1 "$work/out")$([ -n "$found" ] || echo '; it is not there')" "verified"
fi
lethed_stop

# --- Who may do what.
"$bin/access_rpc_test" --gtest_filter="MatrixTest.*" --gtest_output="json:$work/matrix.json" >"$work/matrix" 2>&1 && holds=0 || holds=1
calls=$(sed -n 's/.*"calls": "\([0-9]*\)".*/\1/p' "$work/matrix.json" | head -n 1)
admitted=$(sed -n 's/.*"admitted": "\([0-9]*\)".*/\1/p' "$work/matrix.json" | head -n 1)
claim $holds "every RPC by every role, for a tenant of its own, a foreign one and one that is not there" \
  "$calls calls, $admitted admitted, $(grep -c '^\[  FAILED  \] .*EveryCall' "$work/matrix" || true) otherwise than the table says" "0"
grep -q '^\[       OK \] .*IdentitiesOfOneConnectionDoNotMix' "$work/matrix" && holds=0 || holds=1
claim $holds "identities in turn on one connection do not mix" "$([ $holds -eq 0 ] && echo "none of $(sed -n 's/.*"mixed": "\([0-9]*\)".*/\1/p' "$work/matrix.json") calls" || echo some)" "none"

# --- Load.
"$bin/server_load" "$bin/lethed" "$work/load" >"$work/out" 2>"$work/err" || cat "$work/err" >&2
figure() { value "$1" "$work/out"; }
[ "$(figure errors)" = 0 ] && holds=0 || holds=1
claim $holds "load: $(figure clients) clients, $(figure seconds) s of queries, inserts and erasures: errors" \
  "$(figure errors) of $(figure query_calls) + $(figure insert_calls) + $(figure forget_calls) calls" "0"
[ "$(figure lost)" = 0 ] && [ "$(figure memories_miscounted)" = 0 ] && holds=0 || holds=1
claim $holds "load: acknowledged tokens lost, forgotten ones still there" \
  "$(figure lost) of $(figure acknowledged_tokens) and $(figure forgotten_subjects) subjects; memories with another count: $(figure memories_miscounted)" "0"
at_most "$(figure resident_ratio)" 1.05 && holds=0 || holds=1
claim $holds "load: resident memory of the last third against the second" \
  "$(figure resident_ratio) ($(figure resident_middle_mib) to $(figure resident_late_mib) MiB)" "at most 1.05"
at_most "$(figure p50_ratio)" 2 && holds=0 || holds=1
claim $holds "p50 of a query against that of an empty health call" \
  "$(figure p50_ratio) ($(figure query_p50_us) and $(figure health_p50_us) us)" "at most 2"
echo "   under load p50 and p99: query $(figure query_load_p50_us), $(figure query_load_p99_us) us; insert $(figure insert_load_p50_us), $(figure insert_load_p99_us) us; forget $(figure forget_load_p50_us), $(figure forget_load_p99_us) us"

"$bin/server_stream" "$bin/lethed" "$work/stream" >"$work/out" 2>"$work/err" || cat "$work/err" >&2
at_least "$(figure ratio)" 0.5 && holds=0 || holds=1
claim $holds "InsertStream against what the store alone takes" \
  "$(figure ratio) ($(figure least_ratio) to $(figure largest_ratio)): $(figure stream_rate) tokens a second, the store $(figure store_rate_200) by 200, $(figure store_rate_1600) by 1600" \
  "at least 0.5"

# --- Abuse, while others are served.
lethed_start "$work/abuse" --http-listen 127.0.0.1:0
"$bin/lethe" tenant create abused >/dev/null
"$bin/lethe" memory create visits --tenant abused --gamma 0.5 --capacity 8 --key-dimension 4 --value-dimension 1 >/dev/null
awk 'BEGIN { srand(5); for (i = 0; i < 500; i++) printf "{\"id\":\"t%d\",\"key\":[%.4f,%.4f,%.4f,%.4f],\"value\":[1]}\n", i, rand(), rand(), rand(), rand() }' |
  "$bin/lethe" insert --tenant abused --memory visits --file - --format ndjson >/dev/null
# What is served meanwhile: a query after the other, each by a process and a connection of its own.
bystander() {
  while true; do
    if "$bin/lethe" query --tenant abused --memory visits --key 0.1,0.2,0.3,0.4 --timeout 5s >/dev/null 2>>"$work/bystander.err"; then
      echo served
    else
      echo refused
    fi
    sleep 0.2
  done
}
bystander >"$work/bystander" &
bystander_pid=$!
pids+=($bystander_pid)
before=$(awk '/VmRSS/ { printf "%.0f", $2 / 1024 }' "/proc/$lethed_pid/status")
node tests/foreign/abuse/abuse.js "$LETHE_ADDRESS" "127.0.0.1:$(http_port "$work/abuse")" "$lethed_pid" >"$work/out" 2>"$work/err" || true
kill "$bystander_pid"
for name in long_messages half_open_streams slow_readers rapid_resets garbage nested_json zip_of_zeros slow_writers; do
  [ "$(figure $name)" = ok ] && holds=0 || holds=1
  claim $holds "abuse: ${name//_/ }" "$(figure $name | sed 's/^ok$//')$(figure ${name}_said); resident $(figure ${name}_resident_mib) MiB" \
    "met, server up"
done
peak=$(figure peak_resident_mib)
at_most "${peak:-}" 1024 && holds=0 || holds=1
claim $holds "abuse: peak of resident memory" "${peak:-?} MiB, $before before" "at most 1024 MiB"
served=$(grep -c served "$work/bystander" || true)
refusals=$(grep -c refused "$work/bystander" || true)
[ "$served" -gt 50 ] && [ "$refusals" -eq 0 ] && holds=0 || holds=1
claim $holds "abuse: others meanwhile, by gRPC, each within 5 s" "$served served, $refusals not" "all"
status=0
lethed_stop || status=$?
claim $status "abuse: the server ends by itself afterwards" "status $status" "0"

# --- Fuzzing.
"$bin/fuzz_replay" tests/fuzz/corpus >"$work/replay" 2>&1 && holds=0 || holds=1
claim $holds "inputs of the fuzz targets, replayed" \
  "$(awk '/ inputs in / { inputs += $2; seconds += $5 } END { printf "%d in %.1f s", inputs, seconds }' "$work/replay")$(grep -E 'does not hold|fuzz_replay:' "$work/replay" | head -n 1 | sed 's/^/; /')" "no fault"
if [ -n "$full" ]; then
  bash tests/fuzz/run.sh >"$work/fuzz" || true
  grep -E '^(ok|short) ' "$work/fuzz" || claim 1 "fuzz" "did not run" "ran"
  short=$((short + $(grep -c '^short ' "$work/fuzz" || true)))
fi

echo "server: $short short"
[ "$short" -eq 0 ]
