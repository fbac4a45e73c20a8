#!/usr/bin/env bash
# Makes MindSpore 2.7.1 and 2.0.0 in a folder (default .runtimes): mindspore27 and mindspore20, virtual environments of 3 GB each.
# Not a part of `make runtimes` for their size. What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
one=1
pip_environment "${1:-.runtimes}" mindspore27 "MindSpore 2.7.1" "11 10" mindspore==2.7.1 && one=0
pip_environment "${1:-.runtimes}" mindspore20 "MindSpore 2.0.0" "9" mindspore==2.0.0 'protobuf<3.21' 'pillow<10' 'numpy<2' && one=0
exit $one
