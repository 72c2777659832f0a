#!/bin/sh
# A file that is moved away between two verbs.
set -eu
bide step fetch -- sh -c 'echo a,b > in.csv'
mv in.csv done.csv
bide step load -- cat done.csv
bide result rows:="$(wc -l < done.csv)"
