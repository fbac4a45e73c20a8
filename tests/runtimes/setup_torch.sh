#!/usr/bin/env bash
# Makes PyTorch 2.13 with its exporter to ONNX in a folder (default .runtimes): torch, a virtual environment of any Python from 3.10 to 3.13.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
to=${1:-.runtimes}
mkdir -p "$to"
to=$(cd "$to" && pwd)

interpreter() {
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null && command -v "$candidate" && return
  done
}

python=$(interpreter)
[ -n "$python" ] || { echo "no Python from 3.10 to 3.13: PyTorch is left out" >&2; exit 1; }
[ -x "$to/torch/bin/python" ] && exit
"$python" -m venv "$to/torch" && "$to/torch/bin/python" -m pip install -q torch==2.13.0 onnxscript==0.7.2 onnx \
  || { rm -rf "${to:?}/torch"; echo "PyTorch could not be installed" >&2; exit 1; }
