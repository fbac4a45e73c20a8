"""Many conversions: a list of jobs, run side by side, each in a process of its own."""
