#!/usr/bin/env bash
# What a change must pass, from a fresh clone: installs what is missing, builds, and runs all tests but those labelled
# long or bench. Ends with CTest's summary; exit code 0 if all passed. A quarter of an hour on two cores.
#   packaging/test.sh [--sanitizers]    also with the address and undefined-behaviour sanitizers, and with the thread
#                                       sanitizer (the floors that have threads), in one run of CTest: an hour
#                                       and more
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

# shellcheck source=packaging/packages.sh
. packaging/packages.sh
# shellcheck disable=SC2086
bide_need_packages $BIDE_PACKAGES_BUILD $BIDE_PACKAGES_TEST

presets=(dev)
case "${1:-}" in
  "") ;;
  --sanitizers) presets=(dev asan tsan) ;;
  *) echo "test.sh: no such flag: $1; there is --sanitizers" >&2; exit 2 ;;
esac

cores=$(nproc)
started=$SECONDS
together=$root/build-test
mkdir -p "$together"
: >"$together/CTestTestfile.cmake"
for preset in "${presets[@]}"; do
  begin=$SECONDS
  directory=$root/build-$preset
  [ "$preset" = dev ] && directory=$root/build
  echo "== build $preset"
  cmake --preset "$preset" >"$together/configure-$preset.log" 2>&1 || { cat "$together/configure-$preset.log"; exit 1; }
  ninja -C "$directory" -j "$cores" >"$together/build-$preset.log" 2>&1 ||
    { grep -v '^\[' "$together/build-$preset.log" | tail -n 200; exit 1; }
  echo "   $((SECONDS - begin)) s"
  echo "subdirs(\"$directory\")" >>"$together/CTestTestfile.cmake"
done

export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1
# One run over the three builds, so that there is one summary. The sanitizers' tests carry their name in front.
status=0
ctest --test-dir "$together" -j "$cores" --output-on-failure --no-tests=error -LE '^(long|bench)$' || status=$?
echo "== $((SECONDS - started)) s in all, exit code $status" >&2
exit "$status"
