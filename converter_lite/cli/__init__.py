"""Command lines: options to a request, a result to text and an exit status. Nothing else."""
