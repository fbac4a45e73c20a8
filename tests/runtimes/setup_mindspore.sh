#!/usr/bin/env bash
# Makes MindSpore 2.7.1 and 2.0.0 in a folder (default .runtimes): mindspore27 and mindspore20, virtual environments of 3 GB each.
# Not a part of `make runtimes` for their size. What cannot be made is named; the exit status is 1 if there is nothing.
set -u
to=${1:-.runtimes}
mkdir -p "$to"
to=$(cd "$to" && pwd)

interpreter() {  # minor versions of Python 3
  local minor candidate
  for minor in "$@"; do
    for candidate in "$(command -v "python3.$minor" 2>/dev/null)" "$(pyenv root 2>/dev/null)"/versions/3."$minor".*/bin/python; do
      [ -x "$candidate" ] && "$candidate" -c "import sys; sys.exit(sys.version_info[1] != $minor)" 2>/dev/null && echo "$candidate" && return
    done
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
make_one mindspore27 "$(interpreter 11 10)" mindspore==2.7.1 && none=0
make_one mindspore20 "$(interpreter 9)" mindspore==2.0.0 'protobuf<3.21' 'pillow<10' 'numpy<2' && none=0
exit $none
