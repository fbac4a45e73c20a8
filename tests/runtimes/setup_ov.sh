#!/usr/bin/env bash
# Makes OpenVINO 2026.4.1 in a folder (default .runtimes): openvino, a virtual environment of any Python from 3.10 on.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
pip_environment "${1:-.runtimes}" openvino OpenVINO "" numpy openvino==2026.4.1
