#!/usr/bin/env bash
# check_files.sh ROOT: no source file is longer than a reader can hold in the head, and every header
# has the include guard that its path gives. Prints one line a violation; exits 1 on any.
set -euo pipefail
limit=700
cd "$1"

folders=()
for folder in core audit store server client worker proto tests deploy cmake; do
  [ -d "$folder" ] && folders+=("$folder")
done
status=0
files=0
sources=$(find "${folders[@]}" -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.proto' \
  -o -name '*.sh' -o -name '*.cmake' | sort)
while IFS= read -r file; do
  files=$((files + 1))
  lines=$(wc -l <"$file")
  if [ "$lines" -gt "$limit" ]; then
    echo "$file: $lines lines, more than $limit"
    status=1
  fi
  if [[ $file == *.h ]]; then
    guard=LETHE_$(echo "$file" | tr 'a-z/.-' 'A-Z___')_
    grep -qx "#ifndef $guard" "$file" || {
      echo "$file: no include guard $guard"
      status=1
    }
  fi
done <<<"$sources"
[ "$files" -gt 0 ] || { echo "no source files found"; exit 1; }
[ "$status" -ne 0 ] || echo "files: $files, none longer than $limit lines, every header guarded"
exit "$status"
