"""File formats: each folder reads or writes one, or both; ``registry`` lists them."""
