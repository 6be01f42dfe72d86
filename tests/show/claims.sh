# What the scripts of this folder share; to be sourced. `short` counts the claims that do not hold.

short=0
# claim HOLDS CLAIM FIGURE BAR; HOLDS is a command's status, 0 for yes.
claim() {
  local word=ok
  [ "$1" -eq 0 ] || { word=short; short=$((short + 1)); }
  printf '%s %s: %s (bar %s)\n' "$word" "$2" "$3" "$4"
}
# at_most FIGURE BAR: whether a decimal is there and is.
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 <= b + 0) }'; }
# value NAME FILE: what follows `NAME=` there.
value() { sed -n "s/^$1=//p" "$2"; }
