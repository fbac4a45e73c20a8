"""Many conversions: a list of jobs, run side by side, each in a process of its own."""

GRACE_SECONDS = 5.0
"""How long a conversion may take to clean up when its batch ends before it."""
