"""TensorFlow Lite files: what ``--fmk=TFLITE`` reads."""
