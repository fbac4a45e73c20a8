"""Models as Paddle stores them: a program and its parameters in protobuf files."""
