#!/usr/bin/env bash
# check_docs.sh ROOT BIN: what the documents show must exist. Every command line of ours in README.md and
# docs/*.md names a verb and flags that the program knows; every relative link leads to a file; every
# decision is listed; the C++ example in README.md is client/examples/quick.cc to the letter,
# that in docs/client.md client/examples/consumer. Prints a line a fault; exits 1 on any.
set -euo pipefail
root=$(cd "$1" && pwd) bin=$2
cd "$root"
documents=(README.md CONTRIBUTING.md SECURITY.md docs/*.md docs/adr/*.md)
status=0
fault() { echo "$*"; status=1; }

# Command lines: lines of code blocks that begin with the program, continued over a backslash.
commands=$(cat "${documents[@]}" | awk '
  /^```/ { code = !code; next }
  code {
    line = line $0
    if (line ~ /\\$/) { sub(/\\$/, " ", line); next }
    sub(/^[ \t]*(\$ )?(build\/release\/bin\/)?/, "", line)
    if (line ~ /^(lethe|lethed|lethe-verify|lethe-worker|lethe-bench) /) print line
    line = ""
  }')
[ -n "$commands" ] || fault "no command line found in the documents"
checked=0
while IFS= read -r command; do
  [ -n "$command" ] || continue
  command=${command%%|*}
  command=${command%% #*}
  read -r program rest <<<"$command"
  verbs=()
  for word in $rest; do
    [[ $program =~ ^lethe(-verify)?$ && $word =~ ^[a-z][a-z-]*$ && ${#verbs[@]} -lt 3 ]] || break
    "$bin/$program" "${verbs[@]}" --help 2>/dev/null | grep -qE "^ +$word( |$)" || break
    verbs+=("$word")
  done
  if [[ $program =~ ^lethe(-verify)?$ ]] && [ ${#verbs[@]} -eq 0 ] && [[ $rest != -* ]]; then
    fault "no such verb: $command"
    continue
  fi
  help=$("$bin/$program" "${verbs[@]}" --help 2>&1; "$bin/$program" --help 2>&1) || true
  for word in $rest; do
    [[ $word == --* ]] || continue
    flag=${word%%=*}
    grep -qE -- "(^|[ ,])$flag([ =,]|$)" <<<"$help" || fault "no such flag $flag: $command"
  done
  checked=$((checked + 1))
done <<<"$commands"

links=0
for document in "${documents[@]}"; do
  targets=$(grep -oE '\]\([^)#: ]+[^): ]*\)' "$document" | sed -E 's/^\]\(|\)$//g' || true)
  for target in $targets; do
    links=$((links + 1))
    [ -e "$(dirname "$document")/${target%%#*}" ] || fault "$document: dead link $target"
  done
done

for decision in docs/adr/[0-9]*.md; do
  grep -qF "($(basename "$decision"))" docs/adr/README.md || fault "docs/adr/README.md: does not list $decision"
done

# code_of DOCUMENT LANGUAGE: its code blocks of that language.
code_of() { awk '/^```'"$2"'$/ { code = 1; next } /^```/ { code = 0 } code' "$1"; }
[ "$(code_of README.md cpp)" = "$(cat client/examples/quick.cc)" ] ||
  fault "README.md: the C++ example is not client/examples/quick.cc"

consumer=client/examples/consumer
[ "$(code_of docs/client.md cpp)" = "$(cat $consumer/main.cc)" ] ||
  fault "docs/client.md: the example is not $consumer/main.cc"
[ "$(code_of docs/client.md cmake)" = "$(cat $consumer/CMakeLists.txt)" ] ||
  fault "docs/client.md: the project is not $consumer/CMakeLists.txt"

[ "$status" -ne 0 ] || echo "docs: $checked command lines and $links links hold"
exit "$status"
