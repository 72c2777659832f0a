#!/bin/sh
# Two regions side by side, each with a gate of its own.
set -eu
region() (
  export BIDE_BRANCH=$1
  bide step deploy -- echo "deployed to $1" > "$1.log"
  bide wait approval "Is $1 well?" --name "$1"
  bide step open -- echo "opened $1" > "$1.open"
)
region eu &
region us &
wait
cat eu.log us.log > all.log
bide result n:="$(wc -l < all.log)"
