#!/bin/sh
# The main job, for real, from a fresh clone: installs what is missing, builds, starts the agent in a temporary folder,
# starts a rollout of a real file, kills the agent with SIGKILL while the run waits for an approval, starts it again,
# approves with curl, waits until the run has completed, and shows journal and ledger with the sqlite3 shell.
set -eu
cd "$(dirname "$0")/.."
root=$PWD

. packaging/packages.sh
# shellcheck disable=SC2086
bide_need_packages $BIDE_PACKAGES_BUILD $BIDE_PACKAGES_DEMO

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n== %s\n' "$*"; }

say "Build (some minutes the first time)"
log=$(mktemp)
if ! { cmake --preset release >"$log" 2>&1 && ninja -C build-release bide bide-agent >>"$log" 2>&1; }; then
  tail -n 60 "$log" >&2
  exit 1
fi
rm -f "$log"
bide=$root/build-release/bide
"$bide" version

work=$(mktemp -d)
agent=
clean_up() {
  [ -n "$agent" ] && kill "$agent" 2>/dev/null
  [ -n "$agent" ] && wait "$agent" 2>/dev/null
  chmod -R u+w "$work" 2>/dev/null
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
export BIDE_AGENT="$work/bide.sock"

# Asks until the agent is ready, for ten seconds.
wait_until_ready() {
  tries=0
  until curl --silent --fail --max-time 2 --unix-socket "$BIDE_AGENT" http://localhost/readyz >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 200 ]; then echo "the agent did not become ready:" >&2; cat "$work/agent.log" >&2; exit 1; fi
    sleep 0.05
  done
}
start_agent() {
  "$bide" serve --data "$work/data" --workflows "$root/packaging/examples" --socket "$BIDE_AGENT" --listen none >>"$work/agent.log" 2>&1 &
  agent=$!
  wait_until_ready
}

say "A file to roll out, and the file that is there now"
mkdir "$work/site"
echo 'colour = "green"   # version 2' >"$work/site/app.conf.new"
echo 'colour = "blue"    # version 1' >"$work/site/app.conf"
cat "$work/site/app.conf"

say "Start the agent, start the run"
start_agent
run=$("$bide" run rollout --input "{\"source\": \"$work/site/app.conf.new\", \"target\": \"$work/site/app.conf\"}")
echo "run $run"
# It fetches, checks the sum, and waits for a person.
curl --silent --show-error --fail --unix-socket "$BIDE_AGENT" -H 'Prefer: wait=30' "http://localhost/v1/runs/$run" >"$work/run.json"
"$bide" inbox

say "Kill the agent with SIGKILL while the run waits, start it again"
kill -KILL "$agent"
wait "$agent" 2>/dev/null || true
start_agent
wait=$(sqlite3 -readonly "$work/data/bide.db" "SELECT wait FROM inbox WHERE run = $run")
echo "the question is still there: wait $wait"

say "Approve it with curl"
curl --silent --show-error --fail --unix-socket "$BIDE_AGENT" -H 'Content-Type: application/json' \
  --data '{"decision": "approved", "comment": "looks good"}' "http://localhost/v1/waits/$wait/resolve"
echo

say "Wait until the run has ended"
status=
tries=0
while [ "$status" != completed ]; do
  curl --silent --show-error --fail --unix-socket "$BIDE_AGENT" -H 'Prefer: wait=10' "http://localhost/v1/runs/$run" >"$work/run.json"
  status=$(sqlite3 -readonly "$work/data/bide.db" "SELECT status FROM runs WHERE id = $run")
  tries=$((tries + 1))
  if [ "$status" = failed ] || [ "$status" = cancelled ] || [ "$tries" -gt 20 ]; then
    echo "the run is $status" >&2
    "$bide" show "$run" >&2
    cat "$work/agent.log" >&2
    exit 1
  fi
done
"$bide" show "$run"
echo "in place now: $(cat "$work/site/app.conf")"

say "The journal, as the sqlite3 shell sees it: each step once"
sqlite3 -readonly -header -column "$work/data/bide.db" \
  "SELECT seq, kind, name, effect, status, executions AS ran, substr(result, 1, 40) AS result FROM journal WHERE run = $run ORDER BY seq"
say "The ledger: what happened, in order"
sqlite3 -readonly -header -column "$work/data/bide.db" \
  "SELECT id, strftime('%H:%M:%f', at / 1000.0, 'unixepoch') AS at, kind, step_id AS step FROM events WHERE run_id = $run ORDER BY id"

# The demo is a check as well: five steps, each run once, and the new file in place.
bad=$(sqlite3 -readonly "$work/data/bide.db" "SELECT count(*) FROM journal WHERE run = $run AND (status <> 'completed' OR executions <> 1)")
good=$(sqlite3 -readonly "$work/data/bide.db" "SELECT count(*) FROM journal WHERE run = $run")
if [ "$bad" != 0 ] || [ "$good" != 5 ] || ! cmp -s "$work/site/app.conf" "$work/site/app.conf.new"; then
  echo "the demo did not end as it should" >&2
  exit 1
fi
say "Done: $good steps, each once, over a SIGKILL"
