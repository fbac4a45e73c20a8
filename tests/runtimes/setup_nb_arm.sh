#!/usr/bin/env bash
# Makes runners of Paddle-Lite's light library 2.12 for ARM64 in a folder (default .runtimes), when the library is beside the checkout:
#   pd212-arm64  the ordinary library      pd212-arm64/fp16  the one with float16 kernels
# Needs qemu-user-static and g++-aarch64-linux-gnu. The exit status is 1 if nothing is made.
set -u
to=${1:-.runtimes}
library=$(cd "$(dirname "$0")/../.." && pwd)/../shared/conformance/nb_arm64

[ -d "$library" ] || { echo "no Paddle-Lite library for ARM64 beside the checkout: it is left out" >&2; exit 1; }
command -v qemu-aarch64-static >/dev/null && command -v aarch64-linux-gnu-g++ >/dev/null \
  || { echo "Paddle-Lite for ARM64 is left out: apt-get install qemu-user-static g++-aarch64-linux-gnu" >&2; exit 1; }
make_one() { # folder, kind of library
  [ -x "$1/run_nb_arm64" ] || bash "$library/setup.sh" "$1" ${2:+"$2"} >/dev/null \
    || { echo "the runner of Paddle-Lite for ARM64 could not be compiled" >&2; return 1; }
}
make_one "$to/pd212-arm64" && make_one "$to/pd212-arm64/fp16" fp16 || exit 1
aarch64-linux-gnu-g++ -x c -shared -fPIC -O2 "$(dirname "$0")/fork_server.c" -o "$to/pd212-arm64/fork_server.so" -ldl \
  || { echo "the fork server of the runner could not be compiled" >&2; exit 1; }
