#!/bin/sh
# Rolls one file out: fetch it, check its sum, ask a person, install it atomically, verify, and put the old one back
# if it does not verify. Killed at any moment, by whatever, it goes on where it was; nothing is installed twice.
#
#   bide run rollout --input '{"source": "https://example.org/app.conf", "target": "/etc/app.conf"}'
#
# Input: source   a path or a URL
#        target   where the file goes
#        sha256   what its sum must be (optional)
#        check    a shell command that must succeed once it is in place; it gets the target as $1 (optional)
set -eu

source=$(bide input source)
target=$(bide input target)
wanted=$(bide input sha256 --default "")
check=$(bide input check --default "")
export target

# Recorded: never fetched again once it succeeded. The copy lies in this run's workspace.
sum=$(bide step fetch --effect idempotent --retries 3 -- fetch "$source" new)
export sum
bide step check-sum --effect pure -- check-sum "$sum" "$wanted"

bide wait approval "Install $source as $target? sha256 $sum" --name install --timeout 7d

# Changes the world, and only once: if the box dies in it, the probe looks whether it happened.
bide step install --probe 'installed "$target" "$sum"' -- install-file new "$target" old

if ! bide step verify --effect pure --retries 2 --backoff 2s --try -- verify "$target" "$sum" "$check"; then
  bide step put-back --probe 'put-back-done "$target"' -- put-back old "$target"
  echo "rollout: $target did not verify; the old file is back" >&2
  exit 1
fi
bide result target="$target" sha256="$sum"
