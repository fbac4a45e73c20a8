"""Damaging files on purpose."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def mutations(data: bytes, count: int, *, seed: int) -> Iterator[bytes]:
    """``count`` damaged copies: bits flipped, numbers replaced, parts cut out, repeated, moved, or cut off.

    Half of the damage falls into the first part of the file, where structure is densest.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            _damage(changed, rng)
        yield bytes(changed)


def _damage(data: bytearray, rng: np.random.Generator) -> None:
    if len(data) < 16:
        return
    limit = len(data) if rng.random() < 0.5 else min(len(data), 4096)
    place, kind = int(rng.integers(limit)), int(rng.integers(6))
    if kind == 0:
        data[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[place] = int(rng.integers(256))
    elif kind == 2:
        number = INTERESTING[int(rng.integers(len(INTERESTING)))]
        data[place : place + 4] = number.to_bytes(4, "little")[: max(len(data) - place, 0)]
    elif kind == 3:
        del data[place : place + int(rng.integers(1, 64))]
    elif kind == 4:
        length = int(rng.integers(1, 64))
        data[place:place] = data[place : place + length]
    elif rng.random() < 0.3:
        del data[place:]
    else:
        other = int(rng.integers(len(data)))
        data[place : place + 8] = data[other : other + 8]
