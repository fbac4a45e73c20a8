"""Checks whether calibration samples are prepared as in training: warnings, and pictures of what the network gets."""
