# Functions for scripts that run a server of their own: deploy/quickstart.sh, tests/integration,
# tests/show. To be sourced; needs bash, and `bin` set to the folder of the built programs.
#
#   lethed_start DATA [FLAG...]   starts lethed on a loopback port that the kernel chooses, waits until it
#                                 answers; sets lethed_pid and exports LETHE_ADDRESS
#   lethed_stop                   asks it to end (SIGTERM), waits; returns its exit status
#   lethed_kill                   kill -9, waits

lethed_pid=

# The server's own words go to DATA.log, beside the data folder.
lethed_start() {
  local data=$1 port_file=$1.port tries
  shift
  rm -f "$port_file"
  "$bin/lethed" --data "$data" --listen 127.0.0.1:0 --port-file "$port_file" \
    --insecure-loopback "$@" \
    >>"$data.log" 2>&1 &
  lethed_pid=$!
  for ((tries = 0; tries < 600; tries++)); do
    if ! kill -0 "$lethed_pid" 2>/dev/null; then
      echo "lethed ended while starting; the end of $data.log:" >&2
      tail -n 20 "$data.log" >&2
      lethed_pid=
      return 1
    fi
    if [ -s "$port_file" ]; then
      LETHE_ADDRESS=127.0.0.1:$(cat "$port_file")
      export LETHE_ADDRESS
      if "$bin/lethe" tenant list >/dev/null 2>&1; then
        return 0
      fi
    fi
    sleep 0.1
  done
  echo "lethed did not answer within 60 s; see $data.log" >&2
  return 1
}

lethed_stop() {
  local pid=$lethed_pid tries
  [ -n "$pid" ] || return 0
  lethed_pid=
  kill -TERM "$pid" 2>/dev/null || true
  for ((tries = 0; tries < 300; tries++)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid"
}

lethed_kill() {
  local pid=$lethed_pid
  [ -n "$pid" ] || return 0
  lethed_pid=
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}
