#!/bin/sh
# A key that is the number of a process.
set -eu
amount=$(bide input amount --default 5)
bide step pay --key "$$" -- echo "paid $amount"
bide sleep 1d
bide step receipt -- echo "receipt for $amount"
