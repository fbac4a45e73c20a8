"""Pure functions on NumPy arrays; nothing here knows about graphs, files or devices."""
