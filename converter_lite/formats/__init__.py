"""Output formats; each has a writer and a reader."""
