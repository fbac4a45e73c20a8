#!/usr/bin/env bash
# Makes the released MindSpore Lite 2.0.0 runtimes in a folder (default .runtimes):
#   ms20        x86-64, in a virtual environment of Python 3.7 (converter and runtime)
#   ms20-arm64  the library for 64-bit ARM with a runner; needs qemu-user-static and g++-aarch64-linux-gnu
# What cannot be made is named; the exit status is 1 if there is nothing.
set -u
to=${1:-.runtimes}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$to"
to=$(cd "$to" && pwd)
made=0

python37() {
  local candidate
  for candidate in "$(command -v python3.7 2>/dev/null)" "$(pyenv root 2>/dev/null)"/versions/3.7.*/bin/python; do
    [ -x "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 7))' 2>/dev/null && echo "$candidate" && return
  done
}

make_x86() {
  local python
  python=$(python37)
  [ -n "$python" ] || { echo "no Python 3.7: the x86-64 runtime is left out" >&2; return 1; }
  if ! [ -x "$to/ms20/bin/python" ]; then
    "$python" -m venv "$to/ms20" && "$to/ms20/bin/python" -m pip install -q numpy mindspore-lite==2.0.0 \
      || { rm -rf "$to/ms20"; echo "the x86-64 runtime could not be installed" >&2; return 1; }
  fi
  if command -v cc >/dev/null; then
    cc -O2 -shared -fPIC -o "$to/ms_weight_cache_shim.so" "$here/ms_weight_cache_shim.c"
  else
    echo "no C compiler: files with packed weights cannot be run on x86-64" >&2
  fi
}

make_arm() {
  local lib folder=$to/ms20-arm64
  command -v qemu-aarch64-static >/dev/null && command -v aarch64-linux-gnu-g++ >/dev/null \
    || { echo "the ARM runtime is left out: apt-get install qemu-user-static g++-aarch64-linux-gnu" >&2; return 1; }
  mkdir -p "$folder"
  if ! [ -d "$folder/mindspore_lite" ]; then
    # the wheel that the index lists for any platform is the aarch64 build
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version 37 --implementation cp \
      --platform manylinux2014_aarch64 -d "$folder" mindspore-lite==2.0.0 \
      && python3 -m zipfile -e "$folder"/mindspore_lite-2.0.0-*.whl "$folder" \
      || { echo "the ARM runtime could not be fetched" >&2; return 1; }
    rm -f "$folder"/*.whl
  fi
  lib=$folder/mindspore_lite/lib
  aarch64-linux-gnu-g++ -std=c++17 -O1 -I"$folder/mindspore_lite" -I"$folder/mindspore_lite/include" \
    "$here/ms_arm_child.cc" -o "$folder/ms_arm_child" -L"$lib" -lmindspore_converter -lmindspore_core \
    -Wl,--allow-shlib-undefined -Wl,-rpath,"$lib" \
    && aarch64-linux-gnu-gcc -O2 -shared -fPIC -o "$folder/ms_weight_cache_shim.so" "$here/ms_weight_cache_shim.c" \
    && aarch64-linux-gnu-gcc -O2 -shared -fPIC -o "$folder/fork_server.so" "$here/fork_server.c" -ldl
}

make_x86 && made=1
make_arm && made=1
[ $made = 1 ]
