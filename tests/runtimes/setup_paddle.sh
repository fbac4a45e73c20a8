#!/usr/bin/env bash
# Makes Paddle 3.3.1 and 2.6.2 in a folder (default .runtimes): paddle33 and paddle26, virtual environments.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
one=1
pip_environment "${1:-.runtimes}" paddle33 "Paddle 3.3.1" "13 12 11 10" paddlepaddle==3.3.1 setuptools && one=0
pip_environment "${1:-.runtimes}" paddle26 "Paddle 2.6.2" "12 11 10" paddlepaddle==2.6.2 'numpy<2' 'setuptools<80' && one=0
exit $one
