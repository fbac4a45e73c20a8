"""A Paddle program as an ONNX graph with its plan, one module per family of operators."""
