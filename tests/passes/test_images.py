"""Pictures that are put together from blocks, and convolutions of long rows."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.passes.spelled_out.images import spell_out_blocks, spell_out_long_rows
from tests.support import assert_applies, assert_refuses, build, normal, operators


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("dilations", [(1, 1), (1, 2)])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 2, 1)])
def test_blocks_are_put_together_by_filters(
    strides: tuple[int, int], dilations: tuple[int, int], pads: tuple[int, int, int, int]
) -> None:
    size, block = (9, 8), (3, 2)
    blocks = 1
    for axis in (0, 1):
        room = size[axis] + pads[axis] + pads[axis + 2] - dilations[axis] * (block[axis] - 1) - 1
        blocks *= room // strides[axis] + 1
    attributes = ", ".join(
        f"{name}=[{','.join(map(str, numbers))}]"
        for name, numbers in {"strides": strides, "dilations": dilations, "pads": pads}.items()
    )
    text = f"g (float[2,24,{blocks}] x) => (float[2,4,9,8] y) {{ y = Col2Im<{attributes}>(x, size, block) }}"
    model = build(text, opset=18, size=np.array(size), block=np.array(block))
    assert_applies(spell_out_blocks, model, 1)
    assert operators(model)["ConvTranspose"] == 1


@pytest.mark.parametrize(
    ("shape", "attributes", "length"),
    [
        ("2,3,12000", "", 11994),
        ("2,3,12000", "pads=[2,3], strides=[1]", 11999),
        ("2,3,1,24000", "strides=[1,2], pads=[0,1,0,0]", 11998),
    ],
)
def test_long_rows_are_columns_for_a_convolution(shape: str, attributes: str, length: int) -> None:
    rank = shape.count(",") + 1
    row = f"{length}" if rank == 3 else f"1,{length}"
    text = f"g (float[{shape}] x) => (float[2,5,{row}] y) {{ y = Conv<{attributes}>(x, w, b) }}".replace("<>", "")
    weights = {"w": normal(5, 3, *(1,) * (rank - 3), 7), "b": normal(5)}
    assert_applies(spell_out_long_rows, build(text, **weights), 1)


@pytest.mark.parametrize(("channels", "length"), [(16, 20000), (5, 11000)])
def test_rows_for_which_the_kernel_has_room_stay(channels: int, length: int) -> None:
    text = f"g (float[1,3,{length + 6}] x) => (float[1,{channels},{length}] y) {{ y = Conv(x, w) }}"
    assert_refuses(spell_out_long_rows, build(text, w=normal(channels, 3, 7)))
