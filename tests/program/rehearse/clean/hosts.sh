#!/bin/sh
# A loop over a list, whose steps do not read it.
set -eu
printf 'alpha\nbeta\ngamma\n' > hosts
: > states
while read -r host; do
  state=$(bide step ping --key "$host" --effect idempotent --no-stdin -- sh -c 'echo "$1 is up"' ping "$host")
  echo "$state" >> states
done < hosts
bide wait approval "Upgrade $(wc -l < states) hosts?" --name upgrade
while read -r host; do
  bide step upgrade --key "$host" --no-stdin -- echo "upgraded $host"
done < hosts > upgraded
bide result hosts:="$(wc -l < upgraded)"
