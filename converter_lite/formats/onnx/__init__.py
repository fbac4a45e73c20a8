"""ONNX files, float or with QuantizeLinear / DequantizeLinear pairs."""
