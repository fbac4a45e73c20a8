"""TensorFlow models, read by TensorFlow itself in a process of its own."""
