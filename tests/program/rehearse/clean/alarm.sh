#!/bin/sh
# The first of an approval, a signal and a deadline.
set -eu
bide state set phase '"waiting"'
won=$(bide wait any --approval "Is it done?" --signal done --timer 1h)
echo "$won" > won
bide state set phase '"over"'
bide wait signal price > price
bide result price:="$(cat price)"
