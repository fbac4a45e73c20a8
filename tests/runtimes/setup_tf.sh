#!/usr/bin/env bash
# Makes TensorFlow 2.21 with tf2onnx in a folder (default .runtimes): tensorflow, a virtual environment of any Python from 3.10 to 3.13.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
pip_environment "${1:-.runtimes}" tensorflow TensorFlow "13 12 11 10" tensorflow-cpu==2.21.0 tf2onnx==1.17.0
