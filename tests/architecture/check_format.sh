#!/usr/bin/env bash
# check_format.sh ROOT CLANG_FORMAT: every source file is as .clang-format says.
set -euo pipefail
cd "$1"
find core audit store server client worker tests \( -name '*.h' -o -name '*.cc' -o -name '*.cu' \) -print0 |
  xargs -0 -P 2 -n 20 "$2" --dry-run -Werror
echo "format: all files"
