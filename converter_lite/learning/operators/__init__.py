"""What ONNX operators compute, in PyTorch, with gradients; :data:`~.table.OPERATORS` names them all."""
