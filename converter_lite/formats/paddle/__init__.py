"""Paddle programs: Paddle-Lite ``.nb`` files, and models in Paddle's own files."""
