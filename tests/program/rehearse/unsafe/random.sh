#!/bin/bash
# A port that chance gives.
set -euo pipefail
port=$((20000 + RANDOM))
bide step listen -- echo "$port"
bide wait approval "Open it?" --name open
bide result opened:=true
