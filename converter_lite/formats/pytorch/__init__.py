"""PyTorch models, read by PyTorch itself in a process of its own."""
