"""Models in Paddle's own files: a program and its parameters in protobuf files."""
