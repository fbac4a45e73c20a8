"""Analyses of models: errors layer by layer, what quantizing each layer costs, and which kernels run."""
