"""MindSpore Lite ``.ms`` files."""
