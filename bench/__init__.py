"""Our figures beside those of the peers, measured in one run: ``python -m bench`` writes ``bench/RESULTS.md``."""
