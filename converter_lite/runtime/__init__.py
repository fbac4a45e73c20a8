"""Running models: the engine, what it is handed, and models larger than memory."""
