"""MindSpore's ``.mindir`` files."""
