# What the quickstart shows on data that is there, steps 4 to 9: a server is started, visits are streamed in, the
# memory is asked, one patient is forgotten, the certificate is verified, the server is started again. To be
# sourced, by deploy/quickstart.sh and by deploy/image/build_test.sh inside of the image; needs bash and
#
#   bin    the folder of the programs
#   work   a folder with visits.csv and queries.csv (csl_visits.awk)
#   data   the data folder, which is made anew

source "$(dirname "${BASH_SOURCE[0]}")/lethed.sh"

step() { printf '\n== %s\n' "$*"; }
# One paragraph an argument.
say() { printf '%s\n' "$@" | fold -s -w 80 | sed 's/ *$//'; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

# run PROGRAM ARGS...: prints the command as a person would type it, then runs it, with notes and errors
# among the output.
run() {
  local line='$' word
  for word in "$@"; do
    [ "$word" != "${key:-}" ] || word='"$KEY"'
    if [ $((${#line} + ${#word})) -gt 76 ]; then
      printf '%s \\\n' "$line"
      line='   '
    fi
    line+=" $word"
  done
  printf '%s\n' "$line"
  "$bin/$1" "${@:2}" 2>&1
}

# field NAME: the value of a string or number member of the JSON object on standard input.
field() { sed -nE 's/.*"'"$1"'": ?"?([^",}]*)"?.*/\1/p' | head -n 1; }

main_job() {
  local key before after visit patient certificate restarted keys ask
  step "4/9  Server"
  rm -rf "$data" "$data.log" "$work/certificates"
  lethed_start "$data" 9>&-
  say "lethed listens on $LETHE_ADDRESS, data in $data, log in $data.log"
  export LETHE_TENANT=clinic LETHE_MEMORY=visits
  run lethe tenant create clinic
  # Whoever verifies later pins this key now.
  key=$("$bin/lethe" tenant get -o json | field verification_key)
  printf '%s\n' "$key" >"$work/pinned.key"
  say "The key is pinned now: KEY=\$(cat $work/pinned.key)"
  run lethe memory create visits --kernel rbf --gamma 0.2 --capacity 100 \
    --key-dimension 5 --value-dimension 2

  step "5/9  Stream all visits in"
  keys=prot,prot.prev,prot.base,age,time
  run lethe insert --file "$work/visits.csv" --id-column visit --subject-column patient \
    --key-columns "$keys" --value-columns died,years
  run lethe memory describe
  before=$("$bin/lethe" memory describe -o json | field state_digest)

  step "6/9  Ask: recovering, getting worse, and like nobody here"
  ask=(query --file "$work/queries.csv" --key-columns "$keys" --top 3)
  run lethe "${ask[@]}"
  say "Readout: share that died and years left, averaged over the visits that carry weight, by\
 likeness. Inside or outside: whether the memory has seen the like. Each visit listed carried that\
 share of the answer."
  visit=$("$bin/lethe" "${ask[@]}" -o jsonl | sed -nE '1s/.*"tokens":\[\{"id":"([^"]*)".*/\1/p')
  patient=${visit%-*}
  [ -n "$patient" ] || die "no visit carried the first answer"

  step "7/9  Forget patient $patient, whose visit carried the most of the first answer"
  say "Without --yes the plan is shown and nothing happens:"
  run lethe forget --subject "$patient" </dev/null && die "forgot without --yes"
  say "" "With --yes:"
  run lethe forget --subject "$patient" --yes
  run lethe "${ask[@]}"
  after=$("$bin/lethe" memory describe -o json | field state_digest)
  [ "$before" != "$after" ] || die "the state did not change"

  step "8/9  Verify the certificate offline, against the key pinned in step 4"
  run lethe export --to "$work/certificates"
  run lethe-verify export "$work/certificates" --key "$key"
  certificate=$work/certificates/certificates/000/000000.envelope.json
  say "For people: $work/certificates/report.html"
  run lethe-verify certificate "$certificate" --key "$key"
  awk '{ at = index($0, "\"payload\":\"") + 200; old = substr($0, at, 1)
         printf "%s", substr($0, 1, at - 1) (old == "A" ? "B" : "A") substr($0, at + 1) }' \
    "$certificate" >"$work/tampered.json"
  say "" "A copy with one character of the signed text changed:"
  run lethe-verify certificate "$work/tampered.json" --quiet --key "$key" &&
    die "a tampered certificate was accepted"

  step "9/9  Restart: is patient $patient still gone?"
  lethed_stop || die "lethed did not end by itself"
  lethed_start "$data" 9>&-
  restarted=$("$bin/lethe" memory describe -o json | field state_digest)
  say "State digest before the restart  $after" "State digest after it             $restarted"
  [ "$after" = "$restarted" ] || die "the digests differ"
  say "They are equal."
  run lethe forget --id "$visit" --dry-run
  if "$bin/lethe" query --file "$work/queries.csv" --key-columns "$keys" --top 1000 -o jsonl |
      grep -qF "\"id\":\"$patient-"; then
    die "patient $patient is back"
  fi
  say "Among all visits that carry the three answers, none is of patient $patient. As a last check the\
 server solves from scratch and compares every bit:"
  run lethe memory describe --refit
  lethed_stop || die "lethed did not end by itself"
}
