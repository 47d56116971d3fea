#!/bin/bash
# What a newcomer meets: a minimal Debian 12 (debootstrap) with git, make and ca-certificates, a clone, `make demo`, `make test`;
# then demo, serve and the fast tests again without any network; then a demo with an empty cache and no network.
# As root, from a clean checkout: tools/newcomer_check.sh [FOLDER]      (FOLDER: where the root file system goes)
# Prints a table of times in Markdown; ends with 1 at the first step that did not do what it should.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/newcomer}")
root=$folder/root
mkdir -p "$folder"

# Debian's own archive, from wherever this machine gets it.
mirror=$(apt-get indextargets --format '$(CODENAME) $(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
         awk '$1 == "bookworm" && $2 == "Debian" {print $3; exit}')
[ -n "$mirror" ] || { echo "newcomer_check: no bookworm archive in this machine's apt sources" >&2; exit 1; }

[ -x "$root/usr/bin/make" ] ||
  debootstrap --variant=minbase --include=git,make,ca-certificates bookworm "$root" "$mirror" >"$folder/debootstrap.log"

# How this machine reaches the network holds inside too: names, certificates, pip's settings.
cp /etc/resolv.conf "$root/etc/resolv.conf"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
  cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
  chroot "$root" update-ca-certificates >/dev/null 2>&1
fi

# The clone is of the commit that is checked out, through a bundle, as from any remote.
git bundle create -q "$root/root/monograph.bundle" HEAD
rm -rf "$root/root/monograph"

inside() {  # inside [--offline] COMMAND
  local network=()
  if [ "$1" = --offline ]; then network=(--net); shift; fi
  unshare --mount --pid --fork "${network[@]}" bash -c '
    mount --make-rprivate / && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp"
    ip link set lo up 2>/dev/null || true
    exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb ${http_proxy:+http_proxy=$http_proxy} \
      ${https_proxy:+https_proxy=$https_proxy} bash -c "$2"' newcomer "$root" "$1"
}

echo "commit $(git rev-parse --short=12 HEAD), $(date -u +%Y-%m-%d), $(nproc) cores"
echo
echo "| step | seconds | CPU seconds | result |"
echo "|---|---:|---:|---|"
TIMEFORMAT='%0R %0U %0S'
step() {  # step NAME COMMAND...: runs it, keeps its output, prints a row; CPU seconds tell what a busy machine hides
  local name=$1 log=$folder/${1//[^a-z]/_}.log result=ok times
  shift
  times=$( { time "$@" >"$log" 2>&1; } 2>&1 ) || result="FAILED, see $log"
  read -r wall user system <<<"$times"
  echo "| $name | $wall | $((user + system)) | $result |"
  [ "$result" = ok ] || { tail -40 "$log" >&2; exit 1; }
}

# A line of its own: behind `cd ... &&` the job would be a shell, and the signal would end that and not the server.
serve_answers='
  build/cpu/monograph serve --model models/SmolLM2-135M-Instruct.Q4_1.gguf --port 8123 & server=$!
  python3 - <<PY
import json, time, urllib.request
for _ in range(300):
    try:
        urllib.request.urlopen("http://127.0.0.1:8123/health"); break
    except OSError:
        time.sleep(0.1)
body = json.dumps({"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 16}).encode()
request = urllib.request.Request("http://127.0.0.1:8123/v1/chat/completions", body, {"Content-Type": "application/json"})
with urllib.request.urlopen(request) as reply:
    print(reply.headers["X-Monograph-Prefill-Status"], json.load(reply)["choices"][0]["message"]["content"])
    assert reply.headers["X-Monograph-Prefill-Status"] == "replayed"
PY
  answered=$?; kill -TERM $server; wait $server && exit $answered'

no_model='rm -rf /tmp/away && mv models /tmp/away
  message=$(make demo 2>&1); code=$?
  mv /tmp/away models
  echo "$message"; [ $code != 0 ] && echo "$message" | grep -q "sha256 b179c952.* at "'

step "clone" inside "cd /root && git clone -q monograph.bundle monograph"
step "make demo" inside "cd /root/monograph && make demo"
step "make test" inside "cd /root/monograph && make test"
step "offline: make demo" inside --offline "cd /root/monograph && make demo"
step "offline: serve" inside --offline "cd /root/monograph || exit 1
$serve_answers"
step "offline: fast tests" inside --offline "cd /root/monograph && ctest --test-dir build/cpu -L fast --no-tests=error"
step "offline: empty cache" inside --offline "cd /root/monograph && $no_model"
grep -h -A8 '^> ' "$folder/make_demo.log" | sed 's/^/    /'
