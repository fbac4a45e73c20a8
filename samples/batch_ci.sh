#!/bin/sh
# Converts every job of a list and fails if one of them fails or misses its quality gate: a step for CI.
# usage: samples/batch_ci.sh [JOBS [REPORT_DIRECTORY]]   (default: samples/jobs.toml demo_output)
# The reports are batch.json (with the log of each job) and junit.xml. What has not changed since the last run is skipped.
# CONVERTER_LITE names another command than the `converter_lite` on PATH.
# Exit status: 0 all converted, 1 a job failed, 2 the job list cannot be used.
set -eu
repository=$(cd "$(dirname "$0")/.." && pwd)
reports=${2:-$repository/demo_output}
mkdir -p "$reports"
exec "${CONVERTER_LITE:-converter_lite}" batch "${1:-$repository/samples/jobs.toml}" -j 0 --resume \
  --json="$reports/batch.json" --junit="$reports/junit.xml"
