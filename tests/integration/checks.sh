# What the tests of the real programs share; source it with the folder of the programs. Leaves the test in an
# empty folder, which goes away with it and with the server that it started (deploy/lib/lethed.sh). Counts
# what was demanded in `checks`; the first thing that does not hold ends the test.
bin=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/deploy/lib/lethed.sh"
work=$(mktemp -d)
trap 'lethed_kill; rm -rf "$work"' EXIT
cd "$work"
lethe() { "$bin/lethe" "$@"; }
checks=0
fail() {
  echo "FAILED: $*" >&2
  tail -n 5 ./*.log >&2 || true
  exit 1
}
# equal WHAT GOT WANTED
equal() {
  checks=$((checks + 1))
  [ "$2" = "$3" ] || fail "$1: got '$2', wanted '$3'"
}
# status WANTED COMMAND...: runs it, demands the exit status, leaves its words in ./said.
status() {
  local wanted=$1 got=0
  shift
  "$@" >said 2>&1 </dev/null || got=$?
  checks=$((checks + 1))
  [ "$got" -eq "$wanted" ] || { cat said >&2; fail "exit status $got instead of $wanted: $*"; }
}
# said WORDS: the last `status` printed them.
said() {
  checks=$((checks + 1))
  grep -qF -- "$1" said || { cat said >&2; fail "did not say '$1'"; }
}
# field NAME: the value of a member, from JSON on standard input.
field() { sed -nE 's/.*"'"$1"'": ?"?([^",}]*)"?.*/\1/p' | head -n 1; }
