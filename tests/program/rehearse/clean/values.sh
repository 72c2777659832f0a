#!/bin/sh
# Values that are the same at every replay.
set -eu
id=$(bide value uuid)
at=$(bide value now)
dir=$(bide value tmpdir)
port=$(($(bide value random) % 1000 + 20000))
echo "working on it since $(date)" >&2
echo data > "$dir/data"
bide step use --key "$id" -- sh -c 'cat "$1"; echo "$2 $3"' use "$dir/data" "$at" "$port" > used
bide wait approval "Use $port?"
bide result n:="$(wc -l < used)"
