"""``python -m bench.paddle_twin SOURCE TARGET``: a Paddle model as the released ``opt`` can read it.

It stops at relu6 as newer Paddle writes it, without a threshold: the twin says 6, which is what relu6 means. Releases 2.10
and 2.13rc0 also stop at a flatten that does not name its unused second output.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from converter_lite.formats.paddle.inference_model.messages import message_class

FLOAT, TENSOR, FLOAT32 = 1, 7, 5
"""Numbers of program files: type of an attribute, kind of a variable, type of elements."""


def make(source: Path, target: Path) -> Path:
    """Write the twin of the model in folder ``source`` to folder ``target``."""
    program = message_class("Program")()
    program.ParseFromString((source / "inference.pdmodel").read_bytes())
    block = program.blocks[0]
    for op in block.ops:
        if op.type == b"relu6" and all(attribute.name != b"threshold" for attribute in op.attrs):
            op.attrs.add(name=b"threshold", type=FLOAT, f=6.0)
        if op.type == b"flatten_contiguous_range" and all(slot.parameter != b"XShape" for slot in op.outputs):
            op.outputs.add(parameter=b"XShape", arguments=[b"flatten.xshape"])
            kind = block.vars.add(name=b"flatten.xshape").type
            kind.type, kind.lod_tensor.tensor.data_type = TENSOR, FLOAT32
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "inference.pdiparams", target / "inference.pdiparams")
    (target / "inference.pdmodel").write_bytes(program.SerializeToString())
    return target


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
