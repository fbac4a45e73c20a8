"""Paddle's programs: Paddle-Lite ``.nb`` files and the models that Paddle stores."""
