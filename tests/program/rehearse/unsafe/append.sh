#!/bin/sh
# A report to which a line is added between two verbs.
set -eu
free=$(bide step measure --effect pure -- echo 42)
bide wait approval "Free: $free. Go on?"
echo "free: $free" >> report.txt
bide step send -- wc -l report.txt > sent
bide sleep 1h
bide result done:=true
