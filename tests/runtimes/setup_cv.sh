#!/usr/bin/env bash
# Makes OpenCV 4.11 in a folder (default .runtimes): opencv, a virtual environment of any Python from 3.10 to 3.14. Its dnn module runs Caffe files.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
pip_environment "${1:-.runtimes}" opencv OpenCV "14 13 12 11 10" numpy opencv-python-headless==4.11.0.86
