#!/bin/sh
# Buys something: reserves it, takes the money, has it sent. What was done is taken back, last first, when a later step
# fails, the person says no, or the run is cancelled: the money is given back and the reservation is released.
#
# Shows: --compensate with --export, the step's result in $BIDE_RESULT, one Idempotency-Key for all tries of a request.
#
#   bide run purchase --input '{"shop": "http://127.0.0.1:8080", "article": "lamp", "cents": 4900}'
#
# Input: shop     base URL of the shop: POST /reserve, /charge, /send, and /release, /refund to take back; each answers
#                 with the number of what it made
#        article  what is bought
#        cents    what it costs; from 10000 on a person is asked before the money is taken
set -eu

shop=$(bide input shop)
article=$(bide input article)
cents=$(bide input cents)
export shop

# The key is the same for every try of a step, also after a crash: the shop does each of them once.
call='curl --fail --silent --show-error --max-time 20 -X POST -H "Idempotency-Key: $BIDE_IDEMPOTENCY_KEY" --data "$2" -- "$shop/$1"'

reserved=$(bide step reserve --effect idempotent --retries 5 --export shop \
  --compensate 'curl --fail --silent --show-error -X POST -H "Idempotency-Key: $BIDE_IDEMPOTENCY_KEY" --data @"$BIDE_RESULT" -- "$shop/release"' \
  -- sh -c "$call" call reserve "$article")

if [ "$cents" -ge 10000 ]; then
  bide wait approval "Pay $cents cents for $article?" --name pay --timeout 1d >/dev/null
fi

paid=$(bide step charge --effect idempotent --retries 5 --no-retry-on 22 --export shop \
  --compensate 'curl --fail --silent --show-error -X POST -H "Idempotency-Key: $BIDE_IDEMPOTENCY_KEY" --data @"$BIDE_RESULT" -- "$shop/refund"' \
  -- sh -c "$call" call charge "$reserved $cents")

sent=$(bide step send --effect idempotent --retries 5 --backoff 1s -- sh -c "$call" call send "$reserved $paid")
bide result reserved="$reserved" paid="$paid" sent="$sent"
