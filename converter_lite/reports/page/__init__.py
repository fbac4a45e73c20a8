"""``report.html``: one page that holds everything, and asks no network for anything."""
