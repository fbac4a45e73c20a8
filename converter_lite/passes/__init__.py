"""Graph rewrites, one rule per module; ``pipeline`` defines their order."""
