"""ONNX files, float or with QuantizeLinear and DequantizeLinear (QDQ)."""
