"""Networks of every kind, made here with random weights, through all modes and formats: ``make zoo`` writes ``bench/ZOO.md``."""
