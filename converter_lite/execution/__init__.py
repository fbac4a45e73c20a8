"""Where independent pieces of work are done: on this machine, or on a cluster of machines."""
