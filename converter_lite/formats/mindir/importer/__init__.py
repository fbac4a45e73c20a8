"""Operators of MindSpore as ONNX nodes, one module per family."""
