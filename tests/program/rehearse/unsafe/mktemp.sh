#!/bin/sh
# The name of a temporary file as an argument.
set -eu
bide step hosts --effect pure -- printf 'alpha\nbeta\n' > hosts
list=$(mktemp)
sort -r hosts > "$list"
n=$(bide step count --effect pure -- wc -l "$list")
bide sleep 10m
bide result n="${n%% *}"
