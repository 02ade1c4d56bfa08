#!/bin/sh
# Installs missing Debian packages for building or testing. Prints nothing if none is missing.
# usage: install-packages.sh build|test
set -eu

build="python3-venv python3-dev gcc make clang llvm libbpf-dev libelf-dev zlib1g-dev"
test="$build systemtap-sdt-dev clang-format bpftool bpftrace strace linux-perf tmux procps git curl postgresql-client qemu-system-x86 busybox-static kmod cpio systemd iproute2 prometheus nginx-light libnginx-mod-stream redis-server pgbouncer chromium-headless-shell fonts-noto-cjk g++ libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 musl-tools influxdb fio crun"

case "${1:-}" in
build) wanted=$build ;;
test) wanted=$test ;;
*)
    echo "usage: $0 build|test" >&2
    exit 2
    ;;
esac

missing=""
for package in $wanted; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
# Node may come from elsewhere than Debian, with its own npm.
[ "$1" = build ] || command -v npm >/dev/null || missing="$missing nodejs npm"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "missing packages; as root: apt-get install$missing" >&2
    exit 1
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
# Tests start what they need; no package may start a service of its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
apt-get update -qq
# shellcheck disable=SC2086  # a list of names
apt-get install -y -qq --no-install-recommends $missing >/dev/null
