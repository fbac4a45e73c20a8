"""Paddle-Lite ``.nb`` files: a program and its parameters as bytes, and back."""
