"""Statistics of activations over calibration samples."""
