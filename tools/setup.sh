#!/bin/sh
# Installs what is missing on Debian 12, and nothing else: tools/setup.sh build|test|ci|lint
# Calls apt only when a package is absent, as root or through sudo; without rights it says which packages to install.
set -eu
cd "$(dirname "$0")/.."

build="g++ cmake ninja-build libboost1.81-dev libhwy-dev libutf8proc-dev libxxhash-dev nlohmann-json3-dev python3-venv"
case "${1:-build}" in
  build) packages="$build" ;;
  test) packages="$build libgtest-dev libgmock-dev" ;;
  ci) packages="$build libgtest-dev libgmock-dev ccache" ;;
  lint) packages="$build libgtest-dev libgmock-dev clang-format clang-tidy" ;;
  *) echo "usage: tools/setup.sh build|test|ci|lint" >&2; exit 2 ;;
esac

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; have the equivalents of these Debian 12 packages in place: $packages" >&2
else
  missing=""
  for package in $packages; do installed "$package" || missing="$missing $package"; done
  if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ]; then as_root=""
    elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then as_root="sudo"
    else
      echo "setup: install these packages first, this needs root: apt-get install --no-install-recommends$missing" >&2
      exit 1
    fi
    echo "setup: installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    quiet="-qq -o Dpkg::Use-Pty=0"
    # shellcheck disable=SC2086  # the lists are meant to be split
    if ! { $as_root apt-get $quiet update && $as_root apt-get $quiet install -y --no-install-recommends $missing >/dev/null; }; then
      echo "setup: apt could not install$missing (see its message above)" >&2
      exit 1
    fi
  fi
fi

# The tools that fetch models and test data run in an environment of their own, so that the system's Python stays as it is.
if [ ! -x .venv/bin/pip ]; then
  rm -rf .venv
  python3 -m venv .venv || { echo "setup: python3 -m venv .venv failed; is python3-venv there?" >&2; exit 1; }
fi

# Packages of the tests; a copy of their list says that they are there, so that a second run needs no network.
wanted=tests/e2e/http/requirements.txt
if [ "${1:-build}" = test ] && ! cmp -s "$wanted" .venv/monograph-requirements.txt; then
  if ! reason=$(.venv/bin/pip install --quiet --disable-pip-version-check -r "$wanted" 2>&1); then
    echo "setup: pip could not install $wanted: $(echo "$reason" | grep -i error | tail -1)" >&2
    exit 1
  fi
  cp "$wanted" .venv/monograph-requirements.txt
fi
