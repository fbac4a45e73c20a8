"""One script per peer; each runs as a process of its own, so that its time and memory are those of the whole tool."""
