#!/usr/bin/env bash
# install_test.sh BIN BUILD: installs what was built into an empty prefix, looks whether all of it is there
# and nothing refers to the source tree, builds the example project against the prefix alone, and runs it
# against the installed server.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
build=$2
prefix=$work/prefix

# The page and the completion are made by targets that `all` builds.
status 0 cmake --install "$build" --prefix "$prefix"
for file in bin/lethed bin/lethe bin/lethe-verify bin/lethe-worker include/lethe/client/client.h \
    share/man/man1/lethe.1 share/man/man1/lethe-verify.1 share/man/man8/lethed.8 share/man/man8/lethe-worker.8 share/bash-completion/completions/lethe \
    share/zsh/site-functions/_lethe share/lethe/proto/lethe/v1/memory_service.proto \
    share/lethe/deploy/backup.sh share/lethe/deploy/restore_drill.sh share/lethe/deploy/lib/lethed.sh \
    share/doc/lethe/LICENSE share/doc/lethe/docs/lethed.toml; do
  checks=$((checks + 1))
  [ -s "$prefix/$file" ] || fail "not installed: $file"
done
package=$(find "$prefix" -name lethe-config.cmake -printf '%h')
checks=$((checks + 1))
[ -n "$package" ] || fail "no lethe-config.cmake"
! grep -rnF -e "$root" -e "$build" "$package" "$prefix/include" || fail "the package refers to where it was built"

# A header that is missing would show here: each compiles by itself with the prefix alone.
for header in $(cd "$prefix/include/lethe" && find . -name '*.h' -not -path '*/mocks/*'); do
  checks=$((checks + 1))
  echo "#include \"${header#./}\"" >one.cc
  "${CXX:-c++}" -std=c++20 -fsyntax-only -I "$prefix/include/lethe" one.cc || fail "$header does not compile alone"
done

# As a project elsewhere would: a copy, without the source tree around it.
cp -r "$prefix/share/doc/lethe/client/examples/consumer" consumer
status 0 cmake -S consumer -B consumer/build -DCMAKE_PREFIX_PATH="$prefix"
status 0 cmake --build consumer/build
sed -i 's/find_package(lethe 0.1 /find_package(lethe 0.2 /' consumer/CMakeLists.txt
status 1 cmake -S consumer -B consumer/wrong -DCMAKE_PREFIX_PATH="$prefix"
said 'with requested version "0.2"'

# The installed programs, against each other.
bin=$prefix/bin
lethed_start "$work/data"
status 0 consumer/build/remember_and_forget "$LETHE_ADDRESS"
said "inserted 200"
said "streamed 50"
said "erased 10, certificate "
equal "answers" "$(grep -c '^answer ' said)" 2
status 0 "$bin/lethe" top --once --tenant example
said "visits"
status 0 "$bin/lethed" --config "$prefix/share/doc/lethe/docs/lethed.toml" --insecure-loopback --check-config
status 0 "$bin/lethe-worker" --help
lethed_stop
echo "install: $checks checks hold"
