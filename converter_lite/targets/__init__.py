"""What runtimes can compute in integers, node by node."""
