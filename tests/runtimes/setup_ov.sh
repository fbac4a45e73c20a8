#!/usr/bin/env bash
# Makes OpenVINO 2026.4.1 in a folder (default .runtimes): openvino, a virtual environment of any Python from 3.10 on.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
to=${1:-.runtimes}
mkdir -p "$to"
to=$(cd "$to" && pwd)

interpreter() {
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && command -v "$candidate" && return
  done
}

python=$(interpreter)
[ -n "$python" ] || { echo "no Python 3.10 or newer: OpenVINO is left out" >&2; exit 1; }
[ -x "$to/openvino/bin/python" ] && exit
"$python" -m venv "$to/openvino" && "$to/openvino/bin/python" -m pip install -q numpy openvino==2026.4.1 \
  || { rm -rf "${to:?}/openvino"; echo "OpenVINO could not be installed" >&2; exit 1; }
