"""The operating system and the Python installation: files, signals, optional packages."""
