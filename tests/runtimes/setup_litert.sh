#!/usr/bin/env bash
# Makes the interpreter of TensorFlow Lite files (ai-edge-litert 2.3.0) in a folder (default .runtimes): litert, a virtual
# environment of any Python from 3.10 on. What cannot be made is named; the exit status is 1 if there is nothing.
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
[ -n "$python" ] || { echo "no Python 3.10 or newer: the interpreter of .tflite files is left out" >&2; exit 1; }
[ -x "$to/litert/bin/python" ] && exit
"$python" -m venv "$to/litert" && "$to/litert/bin/python" -m pip install -q numpy ai-edge-litert==2.3.0 \
  || { rm -rf "${to:?}/litert"; echo "ai-edge-litert could not be installed" >&2; exit 1; }
