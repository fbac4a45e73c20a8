"""Learning from gradients: PyTorch networks with fake quantization, made from a graph and its plan and read back into both."""
