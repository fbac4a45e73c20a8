"""Hook of MkDocs: links from the pages to other files of the checkout lead to the repository, where these files are."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from posixpath import normpath
from typing import Any

_LINK = re.compile(r"\]\((\.\./[^)\s#]+)(#[^)\s]+)?\)")
_LOG = logging.getLogger("mkdocs.hooks.docs_links")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """The page with links out of ``docs`` as addresses; one that leads nowhere is a warning, an error with ``--strict``."""
    root = Path(config.config_file_path).parent
    folder = Path("docs", page.file.src_uri).parent

    def address(found: re.Match[str]) -> str:
        target = normpath(folder / found[1])
        if target.startswith("docs/"):
            return found[0]
        if not (root / target).exists():
            _LOG.warning("%s: %s leads nowhere", page.file.src_uri, found[1])
        return f"]({config.repo_url}/blob/main/{target}{found[2] or ''})"

    return _LINK.sub(address, markdown)
