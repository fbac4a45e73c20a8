# For scripts that make one virtual environment of packages; sourced.
# usage: pip_environment FOLDER NAME TITLE NEWEST PACKAGE...
# Makes FOLDER/NAME of any Python from 3.10 to 3.NEWEST (empty: or newer); what cannot be made is named, with exit status 1.
pip_environment() {
  local to=$1 name=$2 title=$3 newest=$4 python="" candidate
  shift 4
  mkdir -p "$to"
  to=$(cd "$to" && pwd)
  for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c "import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, ${newest:-99}))" 2>/dev/null; then
      python=$candidate
      break
    fi
  done
  [ -n "$python" ] || { echo "no Python from 3.10${newest:+ to 3.$newest}: $title is left out" >&2; exit 1; }
  [ -x "$to/$name/bin/python" ] && exit
  "$python" -m venv "$to/$name" && "$to/$name/bin/python" -m pip install -q "$@" \
    || { rm -rf "${to:?}/$name"; echo "$title could not be installed" >&2; exit 1; }
}
