"""Which ONNX operators a ``.ms`` file can hold, and how each is expressed: one table per family."""
