#!/bin/sh
# The day of the attempt in what a person is asked.
set -eu
size=$(bide step measure --effect pure -- echo 7)
bide wait approval "Rotate the logs of $(date +%F) ($size MB)?"
bide step rotate -- echo rotated
