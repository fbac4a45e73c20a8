#!/usr/bin/env bash
# Makes PyTorch with torchvision, timm and transformers, which export the networks of the zoo, in a folder (default .runtimes): zoo, a
# virtual environment of any Python from 3.10 to 3.13. What cannot be made is named; the exit status is 1 if there is nothing.
set -u
. "$(dirname "$0")/pip_environment.sh"
pip_environment "${1:-.runtimes}" zoo "the zoo's PyTorch" "13 12 11 10" -r "$(dirname "$0")/../../bench/requirements/zoo.txt"
