#!/usr/bin/env bash
# selftest.sh ROOT: plants one violation at a time in a copy of the sources and demands that the check
# which guards it says so, by file. A guard that cannot fail guards nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fresh() {
  rm -rf "$work/tree"
  mkdir "$work/tree"
  (cd "$root" && tar -cf - core audit store server client worker proto) | tar -xf - -C "$work/tree"
}

planted=0
# caught CHECK FILE: CHECK must fail on the tree and name FILE.
caught() {
  local check=$1 file=$2
  planted=$((planted + 1))
  if bash "$here/$check" "$work/tree" >"$work/out" 2>&1; then
    echo "not caught by $check: $file"
    exit 1
  fi
  grep -qF "$file" "$work/out" || {
    echo "$check failed without naming $file:"
    cat "$work/out"
    exit 1
  }
}

# include FILE NAME: FILE gains an include of NAME that check_arrows.sh must refuse.
include() {
  fresh
  mkdir -p "$(dirname "$work/tree/$1")"
  printf '  #  include %s\n' "$2" >>"$work/tree/$1"
  caught check_arrows.sh "$1"
}

include core/svdd/planted.cc '<sqlite3.h>'
include core/svdd/planted.cc '"audit/hash.h"'
include core/base/planted.h '<openssl/evp.h>'
include core/base/planted.h '"core/kernel/kernel.h"'
include core/kernel/planted.h '"core/svdd/problem.h"'
include core/kernel/planted.cc '<grpcpp/grpcpp.h>'
include audit/planted.cc '<grpcpp/grpcpp.h>'
include audit/planted.cc '<sqlite3.h>'
include audit/planted.cc '"core/svdd/snapshot.h"'
include audit/planted.cc '"store/tenant_store.h"'
include store/planted.cc '<grpcpp/server.h>'
include store/planted.cc '"lethe/v1/common.pb.h"'
include store/planted.cc '"server/service/names.h"'
include server/service/planted.cc '<grpcpp/server.h>'
include server/service/planted.cc '"lethe/v1/common.pb.h"'
include server/service/planted.cc '"server/rpc/status.h"'
include server/rpc/planted.cc '"client/client.h"'
include client/planted.cc '"server/config.h"'
include client/planted.cc '<sqlite3.h>'
include client/planted.cc '"core/svdd/memory.h"'
include core/batched/cpu/planted.cc '<cuda_runtime.h>'
include core/batched/cuda/planted.cu '<cublas_v2.h>'
include core/newfolder/planted.h '"core/base/check.h"'
include core/svdd/planted.cc '<zlib/zlib.h>'

fresh
seq -f '// %g' 701 >"$work/tree/core/svdd/planted.cc"
caught check_files.sh core/svdd/planted.cc

echo "selftest: $planted planted violations, all caught"
