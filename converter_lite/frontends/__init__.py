"""Readers of trained models: a file becomes an ``onnx_ir`` graph."""
