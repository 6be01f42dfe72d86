#!/usr/bin/env bash
# closing_proof.sh CLOSED OUT: what proves that a deleted tenant's log was closed, from the log's file, for
# when the answer of `lethe tenant delete` was lost. CLOSED is <data>/closed/<name>-<id>; OUT a new folder,
# which gets closing.envelope.json, closing.tlog-proof and checkpoint, byte for byte as `--out` writes them.
# Only reads, from a copy; a server may run meanwhile. Needs sqlite3. Nothing is verified here: that is what
# `lethe-verify certificate OUT/closing.envelope.json --proof OUT/closing.tlog-proof` is for.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: closing_proof.sh CLOSED OUT" >&2; exit 1; }
closed=$1 out=$2
refuse() { echo "closing_proof.sh: $*" >&2; exit 2; }
[ -f "$closed/tenant.db" ] || refuse "no tenant.db in $closed"
[ ! -e "$out" ] || refuse "$out is there already"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp "$closed"/tenant.db* "$copy/"
ask() { sqlite3 "$copy/tenant.db" "$1"; }
bytes() { basenc --base16 --decode; }

last=$(ask "SELECT max(sequence) FROM certificates WHERE kind = 'tenant-closed'")
[ -n "$last" ] || refuse "the log in $closed was not closed"

mkdir "$out"
ask "SELECT hex(envelope) FROM certificates WHERE sequence = $last" | bytes >"$out/closing.envelope.json"
ask "SELECT hex(checkpoint) FROM log_head" | bytes >"$out/checkpoint"
# To the left of the last leaf lie the complete subtrees before it, one for each bit of its number.
{
  printf 'c2sp.org/tlog-proof@v1\nindex %s\n' "$last"
  ask "WITH nodes AS (SELECT 0 AS level, sequence AS idx, leaf_hash AS hash FROM certificates
                      UNION ALL SELECT level, idx, hash FROM log_nodes)
       SELECT hex(hash) FROM nodes
        WHERE ($last >> level) & 1 AND idx = ($last >> level) - 1 ORDER BY level" |
    while IFS= read -r hash; do
      printf '%s\n' "$(printf '%s' "$hash" | bytes | base64 -w 0)"
    done
  printf '\n'
  cat "$out/checkpoint"
} >"$out/closing.tlog-proof"
