"""MindSpore Lite ``.ms``: ``writer`` makes files, ``reader`` turns them into ONNX, ``inspect`` lists what they hold."""
