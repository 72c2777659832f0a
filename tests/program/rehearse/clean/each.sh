#!/bin/sh
# A step for each line of a list, in one process.
set -eu
printf 'one\ntwo\nthree\n' > list
bide each --key-from list -P 2 -- sh -c 'echo "got $1"' got {} > got
sort got > sorted
bide sleep 30m
bide result n:="$(wc -l < sorted)"
