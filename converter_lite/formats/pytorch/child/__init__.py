"""The program that runs where PyTorch is installed; it imports it, and of this package only ``formats.child``."""
