#!/usr/bin/env bash
# Makes onnxruntime-web 1.30 (WebAssembly) in a folder (default .runtimes): web, for Node 18 or newer.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
to=${1:-.runtimes}/web
{ command -v node && command -v npm; } >/dev/null || { echo "no Node with npm: onnxruntime-web is left out" >&2; exit 1; }
[ -d "$to/node_modules/onnxruntime-web" ] && exit 0
mkdir -p "$to" && npm install --prefix "$to" --ignore-scripts --no-audit --no-fund --loglevel=error onnxruntime-web@1.30.0 >/dev/null \
  || { rm -rf "${to:?}"; echo "onnxruntime-web could not be installed" >&2; exit 1; }
