#!/bin/sh
# A child's result.
set -eu
here=$(pwd)
sum=$(bide call adder --input '{"a": 2, "b": 3}')
[ -d work ] || mkdir work
echo "$sum" > work/sum
bide sleep 2h
bide step store -- cp work/sum "$here/stored"
bide result sum:="$sum"
