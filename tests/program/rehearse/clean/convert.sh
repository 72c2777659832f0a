#!/bin/sh
# Six items, three at once, each under its key.
set -eu
seq 1 6 | xargs -P3 -I{} bide step convert --key {} --no-stdin -- sh -c 'echo "item $1"' convert {} > seen
sort seen > sorted && rm -f seen
bide wait approval "All $(wc -l < sorted)?"
bide result n:="$(wc -l < sorted)"
