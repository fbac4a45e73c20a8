"""ONNX with QuantizeLinear / DequantizeLinear pairs."""
