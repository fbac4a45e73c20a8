"""What may go wrong with an ``.npz`` file that somebody else made."""

from __future__ import annotations

import tokenize
import zipfile
import zlib

BROKEN_ARCHIVE = (
    *(OSError, ValueError, AttributeError, KeyError, IndexError, EOFError, OverflowError, MemoryError, TypeError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error),  # RuntimeError: encrypted, or of a kind that zipfile does not know
    *(SyntaxError, tokenize.TokenError),  # of the text in front of an array
)
"""What reading a damaged one raises."""
