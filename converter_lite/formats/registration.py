"""Tables of functions that several modules contribute to."""

from __future__ import annotations

from typing import TypeVar

Entry = TypeVar("Entry")


def joined(*families: dict[str, Entry]) -> dict[str, Entry]:
    """All entries in one table.

    Raises:
        ValueError: Two families have an entry of the same name.
    """
    table: dict[str, Entry] = {}
    for family in families:
        repeated = table.keys() & family.keys()
        if repeated:
            raise ValueError(f"two families have {sorted(repeated)}")
        table.update(family)
    return table
