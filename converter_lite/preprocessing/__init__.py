"""Whether calibration samples are prepared as the network was trained: doubts, and pictures of what it gets."""
