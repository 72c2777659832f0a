#!/bin/sh
# What parent.sh calls.
set -eu
a=$(bide input a)
b=$(bide input b)
bide step add --effect pure -- echo "$((a + b))" > sum
bide result "$(cat sum)"
