"""Every operation that is read gives the numbers of NumPy, and is in the table of the page about Paddle's files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.paddle.importer.fake_quantization import FOLDED
from converter_lite.formats.paddle.importer.table import HANDLERS
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.pir.rules import RULES, rule_of
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.pir_cases import CASES_OF_FUNCTIONS
from tests.formats.paddle.pir_cases_layers import CASES_OF_LAYERS
from tests.formats.paddle.pir_cases_pictures import CASES_OF_PICTURES
from tests.formats.paddle.pir_cases_shapes import CASES_OF_SHAPES
from tests.support import is_since

CASES = {**CASES_OF_FUNCTIONS, **CASES_OF_LAYERS, **CASES_OF_PICTURES, **CASES_OF_SHAPES}

OF_QUANTIZED = {name for name, rule in RULES.items() if rule.kind in FOLDED}
"""Operations that leave no node; test_pir.py reads models with them."""


@pytest.mark.parametrize("name", CASES)
def test_an_operation_computes_what_numpy_says(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    if name == "deformable_conv" and not is_since("onnxruntime", 1, 31):
        pytest.skip("older onnxruntime does not compute DeformConv (tried: 1.19)")
    model = read_paddle(case.program().save(tmp_path / "m")).model
    feed = {f"x{place}": array for place, array in enumerate(case.feed)}
    given = {key: feed[key] for key in (str(value.name) for value in model.graph.inputs)}
    found = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1).run(given)
    made = [found[str(value.name)] for value in model.graph.outputs]
    assert len(made) == len(case.want)
    for array, want in zip(made, case.want, strict=True):
        assert array.shape == want.shape
        assert array.dtype.kind == want.dtype.kind
        assert array.astype(np.float64) == pytest.approx(want.astype(np.float64), rel=1e-4, abs=1e-5, nan_ok=True)


def test_every_rule_has_a_case_and_an_importer() -> None:
    assert {case.rule for case in CASES.values()} - {"relu_"} | OF_QUANTIZED >= set(RULES)
    assert {rule.kind for rule in RULES.values()} <= HANDLERS.keys() | set(FOLDED)
    assert all(rule_of(case.rule) is not None for case in CASES.values())


def test_operations_in_place_have_the_rule_of_the_others() -> None:
    assert rule_of("relu_") is rule_of("relu") is not None
    assert rule_of("batch_norm") is rule_of("batch_norm_") is not None
    assert rule_of("no_such_operation_") is None
