from __future__ import annotations

import numpy as np
import pytest

from converter_lite.passes.spelled_out.triangles import spell_out_triangles
from tests.support import assert_applies, assert_refuses, build, normal, run


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [None, -9, -2, 0, 1, 4, 2**62])
def test_a_triangle_is_chosen_by_a_mask(upper: int, diagonal: int | None) -> None:
    constants = {} if diagonal is None else {"k": np.array(diagonal)}
    inputs = "x" if diagonal is None else "x, k"
    text = f"g (float[2,3,5] x) => (float[2,3,5] y) {{ y = Trilu<upper={upper}>({inputs}) }}"
    model, values = build(text, opset=14, **constants), normal(2, 3, 5)
    values[0] = np.inf
    expected = run(model, {"x": values})["y"]
    assert spell_out_triangles(model) == 1
    np.testing.assert_array_equal(run(model, {"x": values})["y"], expected)


def test_integers_stay_integers() -> None:
    model = build("g (int64[4,4] x) => (int64[4,4] y) { y = Trilu(x) }", opset=14)
    assert_applies(spell_out_triangles, model, 1, {"x": np.arange(16).reshape(4, 4)})


@pytest.mark.parametrize("inputs", ["float[n,4] x, int64 k", "float[4,4] x, int64 k"])
def test_what_is_known_at_run_time_only_stays(inputs: str) -> None:
    assert_refuses(spell_out_triangles, build(f"g ({inputs}) => (float[a,b] y) {{ y = Trilu(x, k) }}", opset=14))
