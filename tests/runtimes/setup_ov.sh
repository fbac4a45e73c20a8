#!/usr/bin/env bash
# Makes OpenVINO 2026.4.1 in a folder (default .runtimes): openvino, a virtual environment of any Python from 3.10 to 3.14.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
pip_environment "${1:-.runtimes}" openvino OpenVINO "14 13 12 11 10" numpy openvino==2026.4.1
