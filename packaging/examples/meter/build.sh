#!/bin/sh
# Makes `main`, the executable of this workflow: ${CC:-cc}, the C library, nothing else.
set -eu
cd "$(dirname "$0")"
${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -Werror -o main main.c
