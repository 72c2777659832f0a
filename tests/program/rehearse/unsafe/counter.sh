#!/bin/sh
# A counter that counts attempts.
set -eu
build() {
  n=$(cat number 2> /dev/null || echo 0)
  echo $((n + 1)) > number
}
bide step test --effect pure -- echo tested > log
build
bide step publish -- echo published > published
bide wait question "Which channel?" --option stable --option beta > channel
bide result build:="$(cat number)" channel="$(cat channel)"
