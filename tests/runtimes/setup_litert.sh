#!/usr/bin/env bash
# Makes the interpreter of TensorFlow Lite files (ai-edge-litert 2.3.0) in a folder (default .runtimes): litert, a virtual
# environment of any Python from 3.10 to 3.14. What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
pip_environment "${1:-.runtimes}" litert "the interpreter of .tflite files" "14 13 12 11 10" numpy ai-edge-litert==2.3.0
