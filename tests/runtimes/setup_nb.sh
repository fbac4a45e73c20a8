#!/usr/bin/env bash
# Makes the released Paddle-Lite runtimes for x86-64 in a folder (default .runtimes), one virtual environment each:
#   pd210  2.10 under Python 3.9      pd212  2.12 under Python 3.7      pd213  2.13rc0 under Python 3.8
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
to=${1:-.runtimes}
mkdir -p "$to"
to=$(cd "$to" && pwd)
made=0

interpreter() { # 3.7 -> a path
  local candidate
  for candidate in "$(command -v "python$1" 2>/dev/null)" "$(pyenv root 2>/dev/null)"/versions/"$1".*/bin/python; do
    [ -x "$candidate" ] && "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null \
      && echo "$candidate" && return
  done
}

make_one() { # name, release, Python
  local python
  python=$(interpreter "$3")
  [ -n "$python" ] || { echo "no Python $3: Paddle-Lite $2 is left out" >&2; return 1; }
  [ -x "$to/$1/bin/python" ] && return
  "$python" -m venv "$to/$1" && "$to/$1/bin/python" -m pip install -q --pre numpy "paddlelite==$2" \
    || { rm -rf "${to:?}/$1"; echo "Paddle-Lite $2 could not be installed" >&2; return 1; }
}

make_one pd210 2.10 3.9 && made=1
make_one pd212 2.12 3.7 && made=1
make_one pd213 2.13rc0 3.8 && made=1
[ $made = 1 ]
