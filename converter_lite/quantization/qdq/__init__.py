"""A plan simulated in ONNX: integers behind QuantizeLinear and DequantizeLinear, to be run, judged and written."""
