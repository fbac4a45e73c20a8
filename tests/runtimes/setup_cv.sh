#!/usr/bin/env bash
# Makes OpenCV 4.11 in a folder (default .runtimes): opencv, a virtual environment of any Python from 3.10 on. Its dnn module runs Caffe files.
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
[ -n "$python" ] || { echo "no Python 3.10 or newer: OpenCV is left out" >&2; exit 1; }
[ -x "$to/opencv/bin/python" ] && exit
"$python" -m venv "$to/opencv" && "$to/opencv/bin/python" -m pip install -q numpy opencv-python-headless==4.11.0.86 \
  || { rm -rf "${to:?}/opencv"; echo "OpenCV could not be installed" >&2; exit 1; }
