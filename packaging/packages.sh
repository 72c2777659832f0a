# shellcheck shell=sh disable=SC2034
# Debian packages by purpose, and how to get those that are missing. Sourced by test.sh and demo.sh (POSIX sh, bash).

# What the agent is built from.
BIDE_PACKAGES_BUILD="build-essential cmake ninja-build pkg-config libsqlitecpp-dev libsqlite3-dev libcpp-httplib-dev
nlohmann-json3-dev libspdlog-dev libcli11-dev libtomlplusplus-dev libvalijson-dev libssl-dev
libmosquitto-dev"
# What the demo shows things with.
BIDE_PACKAGES_DEMO="curl sqlite3 python3 procps"
# What the tests use besides.
BIDE_PACKAGES_TEST="catch2 curl sqlite3 python3 procps busybox git mosquitto
openssl"
# For the page's test. Whatever gives these commands will do: node often comes from elsewhere, with its own npm.
for bide_package in nodejs:node npm:npm chromium:chromium; do
  command -v "${bide_package#*:}" >/dev/null 2>&1 || BIDE_PACKAGES_TEST="$BIDE_PACKAGES_TEST ${bide_package%%:*}"
done

# bide_need_packages NAME...: installs those that are missing, as root or through sudo. Does nothing and needs no
# network when all are there. Returns 1 if something is missing and cannot be installed.
bide_need_packages() {
  bide_missing=
  for bide_package in "$@"; do
    case "$(dpkg-query -W -f='${db:Status-Status}' "$bide_package" 2>/dev/null)" in
      installed) ;;
      *) bide_missing="$bide_missing $bide_package" ;;
    esac
  done
  [ -z "$bide_missing" ] && return 0
  echo "installing:$bide_missing" >&2
  bide_as_root=
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      echo "not root and no sudo: please install$bide_missing" >&2
      return 1
    fi
    bide_as_root=sudo
  fi
  # Package names hold no spaces: splitting is meant.
  # shellcheck disable=SC2086
  $bide_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $bide_missing >&2 ||
    { $bide_as_root apt-get update >&2 &&
      $bide_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $bide_missing >&2; }
}
