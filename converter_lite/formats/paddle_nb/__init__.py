"""Paddle-Lite ``.nb`` files: structure, bytes, writer, reader."""
