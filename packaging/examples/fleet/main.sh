#!/bin/sh
# Runs a command on many hosts over ssh, with keys: on one first, then a person looks, then on the others, a few at once.
# On no host it runs twice: each keeps a mark under the step's key, and is asked for it after a crash.
#
# Shows: xargs over steps with keys, a probe that looks on another machine, BIDE_IDEMPOTENCY_KEY as a mark there.
#
#   bide run fleet --input '{"hosts": "web1 web2 web3", "command": "apt-get -qy upgrade"}'
#
# Input: hosts    names or addresses, with spaces between them; ssh must get there without a password
#        command  what is run there, by sh
#        atonce   hosts at once after the first (4)
set -eu

hosts=$(bide input hosts)
command=$(bide input command)
atonce=$(bide input atonce --default 4)
first=${hosts%% *}

# ssh that asks nobody anything: a host that is down is a failure, and tried again.
bide step look --effect pure --retries 3 --backoff 10s --key "$first" -- on-host "$first" true
said=$(bide step run --key "$first" --probe "was-done '$first'" -- do-on-host "$first" "$command")

rest=$(printf '%s\n' "$hosts" | tr ' ' '\n' | tail -n +2)
if [ -n "$rest" ]; then
  bide wait approval "$first said: $said  Go on with $(printf '%s' "$rest" | tr '\n' ' ')?" --name others >/dev/null
  # The hosts are keys: whatever order they come back in, each finds its own entry.
  printf '%s\n' "$rest" | xargs -P "$atonce" -I{} \
    bide step look --effect pure --retries 3 --backoff 10s --key {} -- on-host {} true
  printf '%s\n' "$rest" | xargs -P "$atonce" -I{} \
    bide step run --key {} --probe "was-done '{}'" -- do-on-host {} "$command"
fi
bide result hosts="$hosts" first="$said"
