#!/bin/sh
# Imports photos from a card: each is copied to a folder of its month under the sum of its bytes (so none is there twice,
# whatever it is called), gets a small picture beside it if ImageMagick is there, and is checked. Only then a person is
# asked whether the card may be emptied.
#
# Shows: `bide each`, a step a file in one process; 10000 photos are replayed in bulk in seconds.
#
#   bide run photos --input '{"card": "/media/ada/CARD", "library": "/srv/photos"}'
#
# Input: card     the folder that is read
#        library  the folder that they go to
#        atonce   files at once (2)
set -eu

card=$(bide input card)
library=$(bide input library)
atonce=$(bide input atonce --default 2)
export card library

# What is on the card now is recorded: a photo that is taken meanwhile belongs to the next import.
bide step list --effect pure -- list-photos "$card" >list
bide each import --effect idempotent --retries 2 --key-from list -P "$atonce" -- import-photo "$card" {} "$library" >imported
sort -u imported >files  # what was on the card twice is one file
bide each check --effect pure --key-from files -P "$atonce" -- check-photo {}

count=$(grep -c . list || :)
new=$(grep -c . files || :)
removed=false
if [ "$count" -gt 0 ]; then
  answer=$(bide wait question "$count photos are in $library. Empty the card?" --name empty --option yes --option no)
  if [ "$answer" = yes ]; then
    bide each remove --effect idempotent --key-from list -P "$atonce" -- remove-photo "$card" {}
    removed=true
  fi
fi
bide result photos:="$count" files:="$new" removed:="$removed"
