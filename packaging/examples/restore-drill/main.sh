#!/bin/sh
# Dumps a SQLite database, and proves that the dump can be restored: unpacks it elsewhere, checks its integrity and
# compares the rows of each table. A dump that does not pass is removed again.
#
# Shows: a backup is one once somebody has restored it; --compensate removes what a failed drill leaves; the workspace
# keeps what an attempt made, for the next one.
#
#   bide run restore-drill --input '{"database": "/srv/app/app.db", "into": "/srv/dumps"}'
#
# Input: database  the file
#        into      the folder of the dumps
#        check     a SQL query on the restored database that must print something (optional)
set -eu

database=$(bide input database)
into=$(bide input into)
check=$(bide input check --default "")
stamp=$(bide value now | tr -d ':-' | cut -c1-15)
dump=$into/$(basename -- "$database" .db)-$stamp.sql.gz
export dump

# A snapshot, so that the dump and the count of rows are of one moment though the database is in use.
bide step snapshot --effect idempotent -- snapshot "$database" snapshot.db
rows=$(bide step count --effect pure -- count-rows snapshot.db)
bide step dump --effect idempotent --export dump --compensate 'rm -f -- "$dump"' -- write-dump snapshot.db "$dump"

bide step restore --effect idempotent -- restore-dump "$dump" restored.db
bide step drill --effect pure -- drill restored.db "$rows" "$check"

bytes=$(bide step measure --effect pure -- stat -c %s -- "$dump")
bide result dump="$dump" bytes:="$bytes" rows="$rows"
