#!/usr/bin/env bash
# check_arrows.sh ROOT: holds every #include under ROOT against arrows.txt. A header compiles without
# linking, so the build alone does not guard the arrows. Prints one line a violation; exits 1 on any.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$1"

find core audit store server client worker -name '*.h' -o -name '*.cc' -o -name '*.cu' | sort |
  xargs -r awk -v rules="$here/arrows.txt" '
    function library(name) {
      if (name ~ /^absl\//) return "absl"
      if (name ~ /^Eigen\//) return "eigen"
      if (name ~ /^(mpfr|gmp|gmpxx)\.h$/) return "mpfr"
      if (name ~ /^openssl\//) return "openssl"
      if (name ~ /^sqlite3/) return "sqlite"
      if (name ~ /^(grpc|grpcpp)\//) return "grpc"
      if (name ~ /^google\//) return "protobuf"
      if (name ~ /^lethe\/(v1|internal)\//) return "proto"
      if (name ~ /^nlohmann\//) return "json"
      if (name ~ /^CLI\//) return "cli11"
      if (name ~ /^cjose\//) return "cjose"
      if (name ~ /^boost\//) return "boost"
      if (name ~ /^curl\//) return "curl"
      if (name ~ /^prometheus\//) return "prometheus"
      if (name ~ /^toml\+\+\//) return "toml"
      if (name ~ /^g(test|mock)\//) return "gmock"
      if (name ~ /^cu(da|blas|dnn|rand)/) return name ~ /^cuda/ ? "cuda" : name
      # The standard library, and the system interfaces that POSIX and Linux spell with a folder.
      if (name ~ /^[a-z0-9_]+(\.h)?$/ || name ~ /^(sys|netinet|arpa|linux)\//) return ""
      return name
    }
    function ours(name) { return name ~ /^(core|audit|store|server|client|worker|tests)\// }
    BEGIN {
      while ((getline line < rules) > 0) {
        if (line ~ /^#/ || line ~ /^[ \t]*$/) continue
        count = split(line, word, /[ \t]+/)
        folders[++rows] = word[1]
        for (i = 2; i <= count; i++) allowed[word[1], ++entries[word[1]]] = word[i]
      }
      if (rows == 0) { print "arrows.txt: no rules"; failed = 1; exit }
    }
    FNR == 1 {
      files++
      folder = ""
      for (i = 1; i <= rows; i++)
        if (index(FILENAME, folders[i]) == 1 && length(folders[i]) > length(folder))
          folder = folders[i]
      if (folder == "") { print FILENAME ": no rule for its folder"; failed = 1 }
    }
    folder != "" && /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
      name = $0
      sub(/^[ \t]*#[ \t]*include[ \t]*[<"]/, "", name)
      sub(/[>"].*$/, "", name)
      includes++
      good = 0
      if (ours(name)) {
        what = name
        for (i = 1; i <= entries[folder]; i++)
          if (allowed[folder, i] ~ /\/$/ && index(name, allowed[folder, i]) == 1) good = 1
      } else {
        what = library(name)
        if (what == "") good = 1
        for (i = 1; i <= entries[folder]; i++) if (allowed[folder, i] == what) good = 1
      }
      if (!good) {
        print FILENAME ":" FNR ": " folder " may not include " name
        failed = 1
      }
    }
    END {
      if (files == 0) { print "no source files found"; failed = 1 }
      if (!failed) print "arrows: " includes " includes in " files " files, all allowed"
      exit failed
    }'
