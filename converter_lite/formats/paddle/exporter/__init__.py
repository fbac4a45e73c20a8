"""An ONNX graph with its plan as a Paddle program, one module per family of operators."""
