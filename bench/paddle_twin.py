"""``python -m bench.paddle_twin SOURCE TARGET``: a Paddle model as the released ``opt`` can read it.

It stops at relu6 as newer Paddle writes it, without a threshold; the twin says 6, which is what relu6 means.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from converter_lite.frontends.paddle_proto import message_class

FLOAT = 1
"""Number of the attribute type in program files."""


def make(source: Path, target: Path) -> Path:
    """Write the twin of the model in folder ``source`` to folder ``target``."""
    program = message_class("Program")()
    program.ParseFromString((source / "inference.pdmodel").read_bytes())
    for op in program.blocks[0].ops:
        if op.type == b"relu6" and all(attribute.name != b"threshold" for attribute in op.attrs):
            op.attrs.add(name=b"threshold", type=FLOAT, f=6.0)
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "inference.pdiparams", target / "inference.pdiparams")
    (target / "inference.pdmodel").write_bytes(program.SerializeToString())
    return target


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
