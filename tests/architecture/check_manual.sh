#!/usr/bin/env bash
# check_manual.sh PAGE...: the manual pages that the build made are well formed, by whichever of groff and
# mandoc is installed, and every line fits 80 columns where nothing forces a longer one. Exits 1 on any
# complaint.
set -euo pipefail
status=0
checked=0
for page in "$@"; do
  [ -s "$page" ] || { echo "$page: not there"; exit 1; }
  # No date, so that the same sources make the same page.
  if command -v mandoc >/dev/null; then
    mandoc -Tlint -Wwarning "$page" | grep -v 'missing date' && status=1
    checked=$((checked + 1))
  fi
  if command -v groff >/dev/null; then
    # A long word of an example cannot be broken.
    groff -man -ww -Tutf8 -z "$page" 2>&1 | grep -v "can't break line" && status=1
    checked=$((checked + 1))
  fi
  for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS'; do
    grep -qx "\.SH $section" "$page" || { echo "$page: no section $section"; status=1; }
  done
done
[ "$status" -ne 0 ] || echo "manual: $# pages, $checked checks by groff and mandoc"
exit "$status"
