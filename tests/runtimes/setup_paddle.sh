#!/usr/bin/env bash
# Makes Paddle 3.3.1 and 2.6.2 in a folder (default .runtimes): paddle33 and paddle26, virtual environments.
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
to=${1:-.runtimes}
mkdir -p "$to"
to=$(cd "$to" && pwd)

interpreter() {  # oldest and newest minor version of Python 3
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    "$candidate" -c "import sys; sys.exit(not ($1 <= sys.version_info[1] <= $2))" 2>/dev/null && command -v "$candidate" && return
  done
}

make_one() {  # name, interpreter, packages
  local name=$1 python=$2
  shift 2
  [ -x "$to/$name/bin/python" ] && return
  [ -n "$python" ] || { echo "no Python for it: $name is left out" >&2; return 1; }
  "$python" -m venv "$to/$name" && "$to/$name/bin/python" -m pip install -q "$@" \
    || { rm -rf "${to:?}/$name"; echo "$name could not be installed" >&2; return 1; }
}

none=1
make_one paddle33 "$(interpreter 10 13)" paddlepaddle==3.3.1 setuptools && none=0
make_one paddle26 "$(interpreter 10 12)" paddlepaddle==2.6.2 'numpy<2' 'setuptools<80' && none=0
exit $none
