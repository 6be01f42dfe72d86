#!/usr/bin/env bash
# Builds the image of the Dockerfile without a registry, and tries it: size and contents, then, on a root file
# system that cannot be written, as an ordinary user without capabilities, the main job of the quickstart, and
# the server as the pod of deploy/kubernetes runs it, with volumes and secrets as a kubelet mounts them.
#
#   bash deploy/image/build_test.sh [--keep-base] [--built] [--twice] [--cuda]
#
# Needs Debian 12, root, a network to a mirror of Debian, 6 GB, and the packages buildah, debootstrap and python3-yaml.
# Takes minutes where CCACHE_DIR (or ~/.cache/ccache) has what a build of this checkout left, half an hour where not; so it
# is a command of its own, and no part of tests/run.sh.
#
#   --keep-base   use the base of an earlier run, and the layers that were made on it
#   --built       put the programs of build/release/bin into it, in place of compiling them there
#   --twice       makes the image itself a second time, from the same programs, and compares every file
#   --cuda        also makes the image with CUDA, by the nvcc of /usr/local/cuda, and asks its worker what it has
#   LETHE_BASE    a base image that is there, instead of one made by debootstrap
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
keep= built= twice= cuda=
for word in "$@"; do
  case "$word" in
    --keep-base) keep=yes ;;
    --built) built=yes ;;
    --twice) twice=yes ;;
    --cuda) cuda=yes ;;
    *) sed -n '6,18s/^# \{0,1\}//p' deploy/image/build_test.sh >&2; exit 2 ;;
  esac
done
for program in buildah debootstrap unshare setpriv; do
  command -v "$program" >/dev/null || { echo "image: needs $program" >&2; exit 2; }
done
[ "$(id -u)" -eq 0 ] || { echo "image: needs root: mounts and chroot" >&2; exit 2; }
source tests/show/claims.sh
mkdir -p var/image
work=$(mktemp -d "$root/var/image/run.XXXXXX")
container=
cleanup() {
  [ -z "$container" ] || buildah rm "$container" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
step() { printf '\n== %s\n' "$*"; }
export BUILDAH_ISOLATION=chroot

# --- The base, under the name that the Dockerfile gives it.
base=${LETHE_BASE:-localhost/debian:bookworm-slim}
if [ -z "${LETHE_BASE:-}" ]; then
  step "Base by debootstrap"
  if [ -z "$keep" ] || [ ! -s var/image/base.tar ]; then
    debootstrap --variant=minbase bookworm "$work/base" >"$work/debootstrap.log" 2>&1 ||
      { tail -n 5 "$work/debootstrap.log" >&2; echo "image: no base" >&2; exit 2; }
    # Updates of this machine's own sources, and what the published slim image leaves out.
    if grep -q '^VERSION_CODENAME=bookworm' /etc/os-release && [ -f /etc/apt/sources.list.d/debian.sources ]; then
      rm -f "$work/base/etc/apt/sources.list"
      cp /etc/apt/sources.list.d/debian.sources "$work/base/etc/apt/sources.list.d/"
    fi
    printf 'path-exclude /usr/share/%s/*\n' doc man info locale lintian >"$work/base/etc/dpkg/dpkg.cfg.d/slim"
    printf 'path-include /usr/share/doc/*/copyright\n' >>"$work/base/etc/dpkg/dpkg.cfg.d/slim"
    find "$work/base/usr/share/doc" -type f ! -name copyright -delete
    rm -rf "$work"/base/usr/share/{man,info,locale,lintian}/* "$work"/base/var/cache/apt/* \
      "$work"/base/var/lib/apt/lists/* "$work"/base/var/log/*
    tar -C "$work/base" --numeric-owner -cf var/image/base.tar .
    rm -rf "$work/base"
  fi
  if [ -z "$keep" ] || ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    container=$(buildah from scratch)
    buildah add -q "$container" var/image/base.tar / >/dev/null
    buildah commit -q --rm "$container" "$base" >/dev/null
    container=
  fi
fi

step "Image"
cache=${CCACHE_DIR:-$HOME/.cache/ccache}
# Objects that a build of this checkout left are used, since the path in the image is the same.
cached=()
[ ! -d "$cache" ] || cached=(--volume "$cache:/ccache" --build-arg CCACHE_DIR=/ccache --build-arg "LANG=${LANG:-}")
arguments=(--build-arg "BASE=$base" --build-arg "SOURCE=$root" --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct 2>/dev/null || echo 0)"
  --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || echo unknown)")
programs=("${cached[@]}")
[ -z "$built" ] || programs=(--volume "$root/build/release/bin:/built:ro" --build-arg BUILT=/built)
started=$SECONDS
buildah bud --layers --format docker --pull-never "${arguments[@]}" "${programs[@]}" -t localhost/lethe:test -f Dockerfile . >"$work/build.log" 2>&1 ||
  { tail -n 30 "$work/build.log" >&2; echo "image: the build failed" >&2; exit 1; }
printf 'built in %d s; compiler cache: %s\n' $((SECONDS - started)) \
  "$(grep -m 1 -E 'Hits:|cache hit rate' "$work/build.log" | xargs || true)"

step "Size and contents"
container=$(buildah from --pull-never localhost/lethe:test)
image=$(buildah mount "$container")
bytes=$(buildah inspect --type image localhost/lethe:test >"$work/image.json"; du -sx --block-size=1 --apparent-size "$image" | cut -f1)
[ "$bytes" -lt 150000000 ] && holds=0 || holds=1
claim $holds "the image, unpacked" "$((bytes / 1000000)) MB" "below 150 MB"
(cd "$image/usr/bin" && for program in lethed lethe lethe-verify lethe-worker; do
  [ ! -e "$program" ] || printf '   %-14s %8.1f MB\n' "$program" "$(stat -c %s "$program" | awk '{ print $1 / 1e6 }')"; done)
chroot "$image" dpkg-query -W -f='${Installed-Size} ${Package}\n' | sort -rn | head -n 12 |
  awk '{ printf "   %-24s %6.1f MB\n", $2, $1 * 1024 / 1e6 }'
packages=$(chroot "$image" dpkg-query -W | wc -l)
echo "   $packages Debian packages"

python3 - "$image" "$work/image.json" "$packages" <<'PYTHON' && holds=0 || holds=1
import json, re, sys
image, inspected, packages = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
config = inspected["Docker"]["config"]
assert config["User"] == "65532:65532", config["User"]
assert config["Healthcheck"]["Test"][:3] == ["CMD", "lethe", "health"], config.get("Healthcheck")
assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
assert re.fullmatch(r"\d+\.\d+\.\d+", config["Labels"]["org.opencontainers.image.version"])
bill = json.load(open(image + "/usr/share/doc/lethe/sbom.spdx.json"))
assert bill["spdxVersion"] == "SPDX-2.3" and bill["SPDXID"] == "SPDXRef-DOCUMENT" and bill["dataLicense"] == "CC0-1.0"
ids = [package["SPDXID"] for package in bill["packages"]]
assert len(set(ids)) == len(ids) == packages + 1, (len(ids), packages)
assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in ids)
assert all(package["versionInfo"] and package["downloadLocation"] for package in bill["packages"])
related = [(r["spdxElementId"], r["relationshipType"]) for r in bill["relationships"]]
assert related[0] == ("SPDXRef-DOCUMENT", "DESCRIBES") and len(related) == len(ids)
assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["creationInfo"]["created"])
PYTHON
claim $holds "labels, user, HEALTHCHECK; a bill of materials (SPDX 2.3) with every package" "$((packages + 1)) packages" "all"
writable=$(find "$image" -xdev \( -perm /6000 -type f -o -perm -0002 -type f -o -perm -0002 -type d ! -perm -1000 \) | wc -l)
[ "$writable" -eq 0 ] && holds=0 || holds=1
claim $holds "files with setuid or setgid, or that everybody can write" "$writable" "0"
found=$(find "$image"/usr/bin "$image"/bin \( -name 'gcc*' -o -name 'g++*' -o -name cmake -o -name curl -o -name wget \) 2>/dev/null | wc -l)
[ "$found" -eq 0 ] && holds=0 || holds=1
claim $holds "compilers and downloaders in it" "$found" "0"

if [ -n "$twice" ]; then
  tree() { (cd "$1" && find . -xdev \( -type f -exec sha256sum {} + -o -type l -printf '%p -> %l\n' \) | LC_ALL=C sort -k 2
    cd "$1" && find . -xdev -printf '%p %m %U %G %y\n' | LC_ALL=C sort); }
  tree "$image" >"$work/tree"
  # Another label, so that nothing of the last stage is taken from before.
  buildah bud --layers --format docker --pull-never "${arguments[@]}" "${programs[@]}" --build-arg REVISION=again -t localhost/lethe:again \
    -f Dockerfile . >>"$work/build.log" 2>&1
  again=$(buildah from --pull-never localhost/lethe:again)
  tree "$(buildah mount "$again")" >"$work/tree.again"
  buildah rm "$again" >/dev/null
  buildah rmi localhost/lethe:again >/dev/null
  cmp -s "$work/tree" "$work/tree.again" && holds=0 || holds=1
  claim $holds "a second image of the same programs and packages" \
    "$(diff "$work/tree" "$work/tree.again" | grep -c '^[<>]' || true) of $(wc -l <"$work/tree") lines about files differ" "0"
fi

# inside COMMAND...: in the image, on a root that cannot be written, without capabilities or new privileges, as the user
# 65532; /tmp/job has the scripts of this checkout, `volumes` what has been prepared for the pod.
cat >"$work/inside.sh" <<'INSIDE'
set -euo pipefail
image=$1 volumes=$2 job=$3
shift 3
mount --bind "$image" "$image"
mount -o remount,bind,ro "$image"
mount -t tmpfs -o size=2g,mode=1777 tmpfs "$image/tmp"
mount -t proc proc "$image/proc"
mount --rbind /dev "$image/dev"
for place in etc/lethe var/lib/lethe var/lib/lethe-vault backups; do
  if [ -d "$volumes/$place" ]; then mount --bind "$volumes/$place" "$image/$place"; fi
done
mkdir "$image/tmp/job"
mount --bind "$job" "$image/tmp/job"
mount -o remount,bind,ro "$image/tmp/job"
ip link set lo up
# The user of the image, no way to more.
exec chroot "$image" setpriv --reuid 65532 --regid 65532 --groups 65532 --no-new-privs \
  --bounding-set=-all --inh-caps=-all env -i PATH=/usr/bin:/bin HOME=/nonexistent LC_ALL=C "$@"
INSIDE
inside() { unshare --mount --net --propagation private bash "$work/inside.sh" "$image" "$work/volumes" "$work/job" "$@"; }
mkdir -p "$work/volumes" "$work/job/lib"
cp deploy/lib/*.sh "$work/job/lib/"
cp deploy/restore_drill.sh deploy/backup.sh "$work/job/"
chmod -R a+rX "$work"

version=$(sed -nE 's/^project\(lethe VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)
said= wanted=
for program in lethed lethe-verify lethe-worker; do
  said+="$(inside "$program" --version 2>&1 | head -n 1); "
  wanted+="$program $version; "
done
[ "$said" = "$wanted" ] && holds=0 || holds=1
claim $holds "programs in it, run" "${said%; }" "${wanted%; }"

step "The main job of the quickstart, inside"
mkdir "$work/visits"
(cd "$work/visits" && apt-get -q -o APT::Sandbox::User=root download r-cran-timereg >/dev/null 2>&1)
dpkg -x "$work"/visits/*.deb "$work/visits/package"
gzip -dc "$work/visits/package/usr/lib/R/site-library/timereg/data/csl.txt.gz" |
  awk -v queries="$work/job/queries.csv" -f deploy/lib/csl_visits.awk >"$work/job/visits.csv"
chmod a+r "$work"/job/*.csv
mkdir -p "$work/volumes/var/lib/lethe" "$work/volumes/var/lib/lethe-vault"
chown 65532:65532 "$work"/volumes/var/lib/lethe "$work"/volumes/var/lib/lethe-vault
chmod 0700 "$work"/volumes/var/lib/lethe "$work"/volumes/var/lib/lethe-vault
inside bash -c 'set -euo pipefail
  ! touch /etc/written 2>/dev/null || { echo "the root file system can be written"; exit 1; }
  bin=/usr/bin work=/tmp/quickstart data=/tmp/quickstart/data
  mkdir $work; cp /tmp/job/*.csv $work; source /tmp/job/lib/main_job.sh
  trap "lethed_stop >/dev/null 2>&1 || true" EXIT
  main_job' >"$work/job.log" 2>&1 && holds=0 || holds=1
[ $holds -eq 0 ] || tail -n 20 "$work/job.log" >&2
claim $holds "the quickstart's main job in the image: stream, ask, forget, verify, restart" \
  "$(grep -c '^\$ ' "$work/job.log" || true) commands, $(grep -m 1 -oE '^(inserted +)?[0-9,]+ (tokens )?inserted.*|inserted .*' "$work/job.log" | head -n 1 | tr -s ' ')" "exit status 0"
rm -rf "$work/volumes"

step "As the pods of deploy/kubernetes/overlays/production"
secrets=$work/secrets
mkdir -p "$secrets/lethe-tls" "$secrets/lethe-access"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority \
  -keyout "$secrets/ca.key" -out "$secrets/lethe-tls/ca.crt" 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=lethe -keyout "$secrets/lethe-tls/tls.key" \
  -out "$secrets/csr" 2>/dev/null
openssl x509 -req -in "$secrets/csr" -CA "$secrets/lethe-tls/ca.crt" -CAkey "$secrets/ca.key" -CAcreateserial -days 1 \
  -extfile <(echo "subjectAltName=DNS:lethe,DNS:lethe.lethe.svc") -out "$secrets/lethe-tls/tls.crt" 2>/dev/null
inside lethe access new-token --name backup --grant '*:admin' --grant '*:app' -o json >"$work/token.json" 2>/dev/null
python3 - "$work" <<'PYTHON'
import json, sys
work = sys.argv[1]
made = json.load(open(work + "/token.json"))
open(work + "/job/token", "w").write(made["token"] + "\n")
open(work + "/secrets/lethe-access/access.toml", "w").write(
    '[[token]]\nname = "backup"\nsha256 = "%s"\ngrants = ["*:admin", "*:app", "*:auditor", "*:eraser", "*:worker"]\n' % made["sha256"])
PYTHON
python3 tests/deploy/pod_files.py tests/golden/kubernetes/production.yaml "$work/volumes" "$secrets" >"$work/job/pod.sh"
token=$work/volumes/etc/lethe/token
mkdir -p "$token/..2026"
mv "$work/job/token" "$token/..2026/token"
ln -s ..2026 "$token/..data"
ln -s ..data/token "$token/token"
chown -R root:65532 "$token"
chmod 0440 "$token/..2026/token"
chmod 2755 "$token/..2026" "$token"
# A new volume of compose takes owner and mode of the image's folder.
mkdir "$work/volumes/backups"
chown --reference="$image/backups" "$work/volumes/backups"
chmod --reference="$image/backups" "$work/volumes/backups"
cat >"$work/job/pod_job.sh" <<'POD'
set -euo pipefail
source /tmp/job/pod.sh
"${args[@]}" 2>/tmp/lethed.log &
pid=$!
trap 'kill -KILL $pid 2>/dev/null || true; tail -n 3 /tmp/lethed.log' ERR
started=0
until "${probe[@]}" >/tmp/health 2>&1; do
  kill -0 $pid && [ $((started += 1)) -lt 100 ] || { cat /tmp/health /tmp/lethed.log; exit 1; }
  sleep 0.1
done
echo "health=$(cat /tmp/health)"
# As a kubelet lays a secret out: root's, 0440, of the group of the pod, behind links.
export LETHE_TOKEN_FILE=/etc/lethe/token/token
lethe tenant create clinic >/dev/null
lethe memory create visits -t clinic --gamma 0.2 --capacity 100 --key-dimension 5 --value-dimension 2 >/dev/null
lethe insert -t clinic -m visits --file /tmp/job/visits.csv --id-column visit --subject-column patient \
  --key-columns prot,prot.prev,prot.base,age,time --value-columns died,years >/dev/null 2>&1
bash /usr/share/lethe/deploy/backup.sh /backups 14 | sed -n 's/^backup: .* holds \([0-9]*\) tenants.*/backed_up=\1/p'
# A worker has a pod of its own; here it finds server and token elsewhere.
worker=("${worker[@]/#--server=*/--server=$LETHE_ADDRESS}" "--server-name=$LETHE_SERVER_NAME")
worker=("${worker[@]/#--token-file=*/--token-file=/etc/lethe/token/token}")
"${worker[@]}" 2>/tmp/worker.log &
worker_pid=$!
lethe --timeout 120s job submit calibrate -t clinic -m visits --tokens 64 --samples 2 --boxes 0.1,0.2 --widths 1,2 --watch >/tmp/job.out 2>&1 &&
  echo "job=done" || { tail -n 5 /tmp/job.out /tmp/worker.log; echo "job=failed"; }
kill -TERM $worker_pid
status=0
wait $worker_pid || status=$?
echo "worker_stopped=$status"
lethe forget -t clinic -m visits --subject 7 --yes >/dev/null
digest=$(lethe memory describe visits -t clinic -o json | sed -nE 's/.*"state_digest": ?"([^"]*)".*/\1/p')
# Key files that others of the group can read would be refused at the next start.
echo "open_to_others=$(find /var/lib/lethe/data /var/lib/lethe-vault/vault -perm /077 | wc -l)"
began=$SECONDS
kill -TERM $pid
status=0
wait $pid || status=$?
echo "stopped=$status"
echo "stop_seconds=$((SECONDS - began))"
echo "grace=$grace"
"${args[@]}" 2>/tmp/lethed.log &
pid=$!
until "${probe[@]}" >/dev/null 2>&1; do kill -0 $pid; sleep 0.1; done
again=$(lethe memory describe visits -t clinic -o json | sed -nE 's/.*"state_digest": ?"([^"]*)".*/\1/p')
[ -n "$digest" ] && [ "$digest" = "$again" ] && echo "digest=equal"
env -u LETHE_ADDRESS -u LETHE_CA -u LETHE_SERVER_NAME -u LETHE_TOKEN_FILE bash /usr/share/lethe/deploy/restore_drill.sh \
  --backups /backups --keys /var/lib/lethe/data/keys --vault /var/lib/lethe-vault/vault --work /tmp --secrets /dev/shm |
  sed -nE 's/^restore drill: ([0-9]+ of [0-9]+) tenants, .*/drill=\1/p'
kill -TERM $pid
wait $pid
POD
inside env LETHE_BIN=/usr/bin bash /tmp/job/pod_job.sh >"$work/pod.log" 2>&1 && status=0 || status=$?
[ "$status" -eq 0 ] || tail -n 20 "$work/pod.log" >&2
of_pod() { value "$1" "$work/pod.log"; }
[ "$(of_pod health)" = SERVING ] && holds=0 || holds=1
claim $holds "the startup probe's command" "$(of_pod health)" "SERVING"
[ "$(of_pod backed_up)" = 1 ] && holds=0 || holds=1
claim $holds "the backup job's script" "$(of_pod backed_up) tenants" "1"
[ "$(of_pod job)" = done ] && [ "$(of_pod worker_stopped)" = 0 ] && holds=0 || holds=1
claim $holds "a job on a worker with the arguments of its Deployment" "$(of_pod job), the worker stopped with $(of_pod worker_stopped)" "done, 0"
[ "$(of_pod open_to_others)" = 0 ] && holds=0 || holds=1
claim $holds "files of data and vault that others can read, on a volume with fsGroup" "$(of_pod open_to_others)" "0"
[ "$(of_pod stopped)" = 0 ] && [ "$(of_pod stop_seconds)" -lt "$(of_pod grace)" ] && holds=0 || holds=1
claim $holds "SIGTERM" "status $(of_pod stopped) after $(of_pod stop_seconds) s" "0 within $(of_pod grace) s"
[ "$(of_pod digest)" = equal ] && holds=0 || holds=1
claim $holds "the state after the next start" "$(of_pod digest)" "equal"
[ "$(of_pod drill)" = "1 of 1" ] && [ "$status" -eq 0 ] && holds=0 || holds=1
claim $holds "the restore test's script" "$(of_pod drill) tenants back" "1 of 1"

if [ -n "$cuda" ]; then
  step "With CUDA"
  [ -x /usr/local/cuda/bin/nvcc ] || { echo "image: --cuda needs /usr/local/cuda/bin/nvcc" >&2; exit 2; }
  started=$SECONDS
  buildah bud --layers --format docker --pull-never "${arguments[@]}" "${cached[@]}" --build-arg PRESET=cuda \
    --volume "$(realpath /usr/local/cuda):/usr/local/cuda:ro" -t localhost/lethe-cuda:test -f Dockerfile . >"$work/cuda.log" 2>&1 ||
    { tail -n 30 "$work/cuda.log" >&2; echo "image: the build with CUDA failed" >&2; exit 1; }
  printf 'built in %d s\n' $((SECONDS - started))
  buildah rm "$container" >/dev/null
  container=$(buildah from --pull-never localhost/lethe-cuda:test)
  image=$(buildah mount "$container")
  echo "   $(du -sx --block-size=1 --apparent-size "$image" | awk '{ printf "%d", $1 / 1000000 }') MB unpacked, of it lethe-worker $(stat -c %s "$image/usr/bin/lethe-worker" | awk '{ printf "%.1f", $1 / 1e6 }') MB"
  mkdir -p "$work/volumes"
  # No device is seen in there: it must miss that, and neither a library nor the backend.
  said=$(inside env CUDA_VISIBLE_DEVICES= timeout 10 lethe-worker --server 127.0.0.1:1 --backend auto 2>&1 |
    grep -oE '"backend":"cpu","backend_reason":"no CUDA device' || true)
  [ -n "$said" ] && holds=0 || holds=1
  claim $holds "its worker with --backend auto, without a device" "${said:-nothing}" "the processor, for want of a device"
fi

echo "image: $short short"
[ "$short" -eq 0 ]
