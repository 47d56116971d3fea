#!/bin/sh
# Builds the tree for 64-bit ARM and runs the fast tests under qemu-user: tools/arm64_check.sh [CTEST ARGUMENTS...]
# Needs the Debian packages g++-aarch64-linux-gnu and qemu-user. The libraries' ARM packages are unpacked into build/arm64-sysroot, so
# the system's own packages stay as they are.
set -eu
cd "$(dirname "$0")/.."

sysroot=build/arm64-sysroot
packages="libhwy-dev libhwy1 libutf8proc-dev libutf8proc2 libgtest-dev googletest libgmock-dev libboost1.81-dev libxxhash-dev nlohmann-json3-dev"

for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v $tool >/dev/null || { echo "arm64: $tool is missing: apt-get install g++-aarch64-linux-gnu qemu-user" >&2; exit 1; }
done

# apt with an architecture and lists of its own.
fetch() {
  state="$PWD/build/arm64-apt"
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  set -- -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State::Lists=$state/lists" \
    -o Dir::State::status=/dev/null -o "Dir::Cache=$state/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User=root
  apt-get "$@" update
  # shellcheck disable=SC2086  # the list is meant to be split
  (cd "$state" && apt-get "$@" download $packages)
  mkdir -p "$sysroot"
  for deb in "$state"/*.deb; do dpkg -x "$deb" "$sysroot"; done
  touch "$sysroot/complete"
}
[ -e "$sysroot/complete" ] || fetch

cmake --preset arm64 --log-level=WARNING
cmake --build --preset arm64 -j "${JOBS:-$(nproc)}"
ctest --test-dir build/arm64 -L fast --no-tests=error --output-on-failure "$@"
