"""Command lines: they turn options into a request, and a result into text and an exit status. Nothing else."""
