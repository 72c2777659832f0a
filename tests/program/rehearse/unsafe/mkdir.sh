#!/bin/sh
# A folder that is made anew at each attempt.
set -eu
bide step fetch --effect pure -- echo data > fetched
mkdir out
bide step pack -- cp fetched out/packed
bide wait approval "Ship it?"
bide result packed="$(cat out/packed)"
