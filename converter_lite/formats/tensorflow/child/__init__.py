"""The program that runs where TensorFlow is installed; it imports it, and of this package only ``formats.child``."""
