"""``report.html``: a self-contained page that needs no network."""
