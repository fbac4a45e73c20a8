"""An ONNX graph with its plan as a ``.ms`` graph, one module per family of operators."""
