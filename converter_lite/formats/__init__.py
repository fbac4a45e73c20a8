"""File formats: each folder has what reads and what writes one; ``registry`` names them."""
