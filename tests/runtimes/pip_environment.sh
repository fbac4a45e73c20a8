# For scripts that make virtual environments of packages; sourced.

# usage: pip_environment FOLDER NAME TITLE MINOR-VERSIONS PACKAGE...
# Makes FOLDER/NAME of the first Python 3 of these minor versions that there is; what cannot be made is named, with status 1.
pip_environment() {
  local to=$1 name=$2 title=$3 minors=$4 python
  shift 4
  mkdir -p "$to"
  to=$(cd "$to" && pwd)
  [ -x "$to/$name/bin/python" ] && return
  python=$(find_python "$minors")
  [ -n "$python" ] || { echo "no Python 3 of ${minors// /, }: $title is left out" >&2; return 1; }
  "$python" -m venv "$to/$name" && "$to/$name/bin/python" -m pip install -q "$@" \
    || { rm -rf "${to:?}/$name"; echo "$title could not be installed" >&2; return 1; }
}

find_python() {
  local minor candidate
  for minor in $1; do
    for candidate in "$(command -v python3)" "$(command -v "python3.$minor")" "$(pyenv root 2>/dev/null)"/versions/3."$minor".*/bin/python; do
      [ -x "$candidate" ] && "$candidate" -c "import sys; sys.exit(sys.version_info[1] != $minor)" 2>/dev/null && echo "$candidate" && return
    done
  done
}
