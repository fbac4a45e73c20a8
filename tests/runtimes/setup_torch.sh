#!/usr/bin/env bash
# Makes PyTorch 2.13 with its exporter to ONNX in a folder (default .runtimes): torch, a virtual environment of any Python from 3.10 to 3.13.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
pip_environment "${1:-.runtimes}" torch PyTorch "13 12 11 10" torch==2.13.0 onnxscript==0.7.2 onnx
