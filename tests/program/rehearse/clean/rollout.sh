#!/bin/sh
# A file is fetched, approved, installed, and looked at after ten minutes.
set -eu
sum=$(bide step fetch --effect idempotent --retries 3 -- sh -c 'echo colour = green > new.conf; sha256sum < new.conf')
export sum
bide wait approval "Install ${sum%% *}?" --timeout 2d
bide step install --probe 'cmp -s new.conf app.conf && echo there || exit 100' --export sum \
  --compensate 'rm -f app.conf' -- cp new.conf app.conf
bide sleep 10m
bide step verify --effect pure --retries 3 -- grep -q green app.conf
bide result installed="${sum%% *}"
