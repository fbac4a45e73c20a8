"""Calibration samples: pictures, BIN files, Python iterables, random data."""
