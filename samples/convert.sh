#!/bin/sh
# Quantizes the sample model fully. usage: samples/convert.sh [OUTPUT]   (default: demo_output/shapes_int8, .ms and .onnx are added)
# CONVERTER_LITE names another command than the `converter_lite` on PATH.
set -eu
output=${1:-demo_output/shapes_int8}
case $output in /*) ;; *) output=$PWD/$output ;; esac

# The calibrate_path in the configuration is relative to the repository.
cd "$(dirname "$0")/.."
mkdir -p "$(dirname "$output")"
exec "${CONVERTER_LITE:-converter_lite}" --fmk=ONNX --modelFile=samples/shapes.onnx --outputFile="$output" \
  --configFile=samples/full_quant.cfg
