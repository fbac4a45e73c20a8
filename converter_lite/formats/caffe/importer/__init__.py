"""Caffe layers as ONNX nodes, one module per family."""
