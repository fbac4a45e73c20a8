#!/usr/bin/env bash
# Makes PyTorch 2.13 with what this package needs, where the tests of the extra `learn` run, in a folder (default .runtimes): learn, a
# virtual environment of any Python from 3.10 to 3.13. What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
pip_environment "${1:-.runtimes}" learn "PyTorch for learning" "11 12 13 10" torch==2.13.0 "$(dirname "$0")/../.." pytest hypothesis
