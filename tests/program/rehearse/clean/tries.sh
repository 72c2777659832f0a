#!/bin/bash
# Failures that are expected, and a choice.
set -euo pipefail
attempt() {
  local code=0
  bide step check --try -- sh -c 'echo looked; exit 3' > check.txt || code=$?
  echo "$code"
}
code=$(attempt)
bide step repair --effect idempotent --retries 2 --backoff 1m -- \
  sh -c 'if [ -e half ]; then echo repaired; else touch half; exit 1; fi' > repaired
channel=$(bide wait question "Code $code: which channel?" --option stable --option beta)
printf '%s\n' "$channel" > channel
bide result code:="$code" channel="$channel"
