#!/bin/sh
# A list that the steps themselves make longer.
set -eu
bide step fetch -- sh -c 'echo 1 > a.csv; echo 2 > b.csv'
for file in *.csv; do
  bide step clean --key "$file" -- cp "$file" "clean-$file"
done
bide result done:=true
