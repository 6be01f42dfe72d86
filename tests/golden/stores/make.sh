#!/usr/bin/env bash
# make.sh BIN OUT.tar.gz [ENCODER]: a small installation written by the programs of an older release: data folder,
# vault, a backup, and what that release said of them. tests/integration/older_store_test.sh opens it with the present
# programs. Run once, when a release raises a format, with the last programs that write the one before
# (docs/upgrading.md, "How it is tested"); the files are kept, since keys and times are others each time. ENCODER is an
# artefact for the first memory of format 5.
set -euo pipefail
out=$(realpath -m "$2")
encoder=${3:+$(realpath "$3")}
source "$(dirname "${BASH_SOURCE[0]}")/../../integration/checks.sh" "$(realpath "$1")"
tokens() { # FIRST LAST
  for ((i = $1; i <= $2; i++)); do
    printf '{"id":"visit-%d","subject":"subject-%d","key":[0.%d,%d.5],"value":[%d],"payload":"note %d"}\n' \
      $i $((i / 2)) $((i * 7 % 10)) $((i % 5)) $i $i
  done
}
umask 077
mkdir store
lethed_start "$work/store/data" --vault "$work/store/vault" --ballast 0 --origin lethe.example
for tenant in clinic lab; do
  lethe tenant create "$tenant" >/dev/null
  lethe memory create visits -t "$tenant" --gamma 0.7 --capacity 6 --key-dimension 2 --value-dimension 1 >/dev/null
  tokens 1 40 | lethe insert -q -t "$tenant" -m visits -f - --format ndjson >/dev/null
done
lethe memory create near -t clinic --kernel laplacian --gamma 0.4 --box 0.3 --key-dimension 2 --value-dimension 1 >/dev/null
tokens 30 50 | lethe insert -q -t clinic -m near -f - --format ndjson >/dev/null
lethe backup create --out store/backup >/dev/null
lethe forget -t clinic -m visits --subject subject-3 --yes --request-id ticket-3 -o json >store/forgotten.json
tokens 9 9 | sed 's/note 9/note 9, corrected/' | lethe edit -q -t clinic -m visits -f - --format ndjson --yes >/dev/null
lethe hold place -t clinic --subject subject-12 --reason "a dispute" >/dev/null
lethe erasure request -t clinic --subject subject-17 --yes -o json >request.json
request=$(field id <request.json)
for ((tries = 0; tries < 200; tries++)); do
  [ "$(lethe erasure status -t clinic "$request" -o json | field state)" != completed ] || break
  sleep 0.1
done
equal "the request" "$(lethe erasure status -t clinic "$request" -o json | field state)" completed
lethe key rewrap lab --yes >/dev/null
lethe key rotate --yes >/dev/null
{
  echo "request $request"
  for memory in clinic/visits clinic/near lab/visits; do
    echo "digest $memory $(lethe memory describe "${memory#*/}" -t "${memory%/*}" -o json | field state_digest)"
  done
  for tenant in clinic lab; do
    echo "certificates $tenant $(lethe tenant get "$tenant" -o json | field certificate_count)"
    echo "key $tenant $(lethe log key "$tenant" -o jsonl | grep -oE '[^"]+\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+' | head -n 1)"
  done
} >store/facts
lethed_stop || fail "lethed did not end by itself with status 0"
[ -z "$encoder" ] || cp "$encoder" store/encoder.bin
rm -f store/data/lethe.lock store/data.log store/data.port
tar -C store --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -c . | gzip -9n >"$out"
cat store/facts
ls -l "$out"
