"""Graph rewrites, one rule per module; ``pipeline`` says the order."""
