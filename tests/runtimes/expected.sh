#!/usr/bin/env bash
# Prints the names of the runtimes that can be made on this machine, because their interpreters and tools are there.
has() {
  local candidate
  for candidate in "$(command -v "python$1" 2>/dev/null)" "$(pyenv root 2>/dev/null)"/versions/"$1".*/bin/python; do
    [ -x "$candidate" ] && "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null && return
  done
  return 1
}

has 3.7 && echo ms20 pd212
has 3.8 && echo pd213
has 3.9 && echo pd210
command -v qemu-aarch64-static >/dev/null && command -v aarch64-linux-gnu-g++ >/dev/null && {
  echo ms20-arm64
  [ -d "$(dirname "$0")/../../../shared/conformance/nb_arm64" ] && echo pd212-arm64
}
command -v node >/dev/null && command -v npm >/dev/null && echo web
for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
  "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo openvino opencv litert && break
done
for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
  "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo paddle33 learn && break
done
for candidate in python3 python3.12 python3.11 python3.10; do
  "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null && echo paddle26 && break
done
[ "$(uname -sm)" = "Linux x86_64" ] && command -v cc >/dev/null && command -v objdump >/dev/null && echo without_vnni
exit 0
