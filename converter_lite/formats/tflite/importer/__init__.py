"""A TensorFlow Lite graph as an ONNX graph with its plan, one module per family of operators."""
