#!/bin/sh
# Converts every model of a job list and fails if one of them fails or misses its quality gate: a step for CI.
# usage: samples/batch_ci.sh [JOBS [OUTPUT_DIRECTORY]]   (default: samples/jobs.txt demo_output)
# Prints one line per job and the converter's reason under a failed one. The full output of job NAME is in
# OUTPUT_DIRECTORY/NAME.log, the figures are in NAME.json.
# CONVERTER_LITE names another command than the `converter_lite` on PATH.
# Exit status: 0 all converted, 1 a job failed, 2 the job list cannot be used.
set -u
absolute() { case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }
bytes() { wc -c <"$1" | tr -d ' '; }

repository=$(cd "$(dirname "$0")/.." && pwd)
jobs=$(absolute "${1:-$repository/samples/jobs.txt}")
output=$(absolute "${2:-$repository/demo_output}")
cd "$repository" || exit 2
[ -r "$jobs" ] || { echo "$jobs: cannot be read" >&2; exit 2; }
mkdir -p "$output" || exit 2

done_count=0 failed_count=0 line_number=0
while read -r name model config min_cosine rest || [ -n "$name" ]; do
  line_number=$((line_number + 1))
  case $name in '' | '#'*) continue ;; esac
  if [ -z "$min_cosine" ] || [ -n "$rest" ]; then
    echo "$jobs:$line_number: need four columns: name, model, configuration, minimal cosine" >&2
    exit 2
  fi
  # Standard input is the job list: the converter must not read it.
  "${CONVERTER_LITE:-converter_lite}" --fmk=ONNX --modelFile="$model" --outputFile="$output/$name" \
    --configFile="$config" --minCosine="$min_cosine" --json="$output/$name.json" \
    </dev/null >"$output/$name.log" 2>"$output/$name.err"
  status=$?
  if [ $status -eq 0 ]; then
    done_count=$((done_count + 1))
    echo "ok      $name  cosine >= $min_cosine, $(bytes "$model") -> $(bytes "$output/$name.onnx") bytes"
  else
    failed_count=$((failed_count + 1))
    echo "FAILED  $name  exit status $status, see $output/$name.log"
    sed 's/^/        /' "$output/$name.err"
  fi
  cat "$output/$name.err" >>"$output/$name.log" && rm -f "$output/$name.err"
done <"$jobs"

[ $((done_count + failed_count)) -gt 0 ] || { echo "$jobs: no jobs" >&2; exit 2; }
echo "$done_count converted, $failed_count failed"
[ $failed_count -eq 0 ]
