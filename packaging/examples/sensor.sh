#!/bin/sh
# Reads a sensor every so often. When the value is over the limit several times in a row a person is asked: act, ignore
# it, or stop watching. It may run for years: after some readings it goes on as a new run with a short journal.
#
# Shows: a loop with keys, days of sleep without a process, a question with options, state that others see,
# continue-as-new.
#
#   bide run sensor --input '{"read": "cat /sys/class/thermal/thermal_zone0/temp", "limit": 80000,
#       "act": "systemctl start fan", "every": "10m"}'
#   bide show RUN               its state: last value, times over the limit
#
# Input: read    a shell command that prints a number
#        limit   what is too much
#        act     a shell command that a person may order; it gets the value as $1
#        every   how long between two readings (10m)
#        times   so many in a row are asked about (3)
#        rounds  readings a run (500), before it goes on as a new one
#        high    for that: how often it was too much in a row until now
set -eu

read=$(bide input read)
limit=$(bide input limit)
act=$(bide input act)
every=$(bide input every --default 10m)
times=$(bide input times --default 3)
rounds=$(bide input rounds --default 500)
high=$(bide input high --default 0)

round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  value=$(bide step read --key "$round" --effect pure --retries 3 --backoff 5s -- sh -c "$read")
  # From here on only what is recorded decides, so a replay takes the same way.
  if awk -v v="$value" -v l="$limit" 'BEGIN { exit !(v + 0 > l + 0) }'; then high=$((high + 1)); else high=0; fi
  bide state set last "$value"
  bide state set high "$high"
  if [ "$high" -ge "$times" ]; then
    answer=$(bide wait question "The sensor says $value, over $limit for $high readings" --name alarm --key "$round" \
      --option act --option ignore --option stop)
    case $answer in
      act) bide step act --key "$round" -- sh -c "$act" act "$value" ;;
      stop)
        bide result last="$value" stopped:=true
        exit 0
        ;;
    esac
    high=0
  fi
  bide sleep "$every" --key "$round"
done
next=$(bide step next --effect pure -- python3 -c '
import json, os, sys
given = json.load(open(os.environ["BIDE_INPUT"]))
given["high"] = int(sys.argv[1])
print(json.dumps(given))' "$high")
bide continue-as-new --input "$next"
