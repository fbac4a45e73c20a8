"""``python -m bench.zoo.samples NETWORK FOLDER``: a network's samples as converters read them.

A folder per input with BIN files of the first samples (``0``, ``1``, ...), the same in ``samples.npz``, and ``proof.npz`` with
the rest.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from bench.zoo.cases import CALIBRATION


def main() -> None:
    """Write them."""
    source, folder = map(Path, sys.argv[1:])
    with np.load(source / "samples.npz") as arrays:
        names = [name.removeprefix("0/") for name in arrays.files if name.startswith("0/")]
        count = len(arrays.files) // len(names)
        for index, name in enumerate(names):
            (folder / str(index)).mkdir()
            for sample in range(CALIBRATION):
                arrays[f"{sample}/{name}"].tofile(folder / str(index) / f"{sample:02d}.bin")
        np.savez(folder / "samples.npz", **{f"{i}/{n}": arrays[f"{i}/{n}"] for n in names for i in range(CALIBRATION)})
        stacked = {n: np.stack([arrays[f"{i}/{n}"] for i in range(CALIBRATION, count)]) for n in names}
        np.savez(folder / "proof.npz", **stacked)


if __name__ == "__main__":
    main()
