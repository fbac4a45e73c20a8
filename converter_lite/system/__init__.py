"""What is asked of the operating system and of the Python installation: files, signals, optional packages."""
