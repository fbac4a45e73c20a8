"""``.ms`` graph -> ONNX graph with its plan."""
