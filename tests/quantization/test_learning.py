"""What becomes of a network that learns, and of one that gains nothing; how it learns is no matter here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.calibration.context import CalibrationContext
from converter_lite.config.names import Rounding
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.quantizer import Quantizer, Resources
from converter_lite.quantization.settings import FullSettings, Learning
from converter_lite.targets.devices import target_spec
from tests.support import build, clone, normal, samples_of

FULL = FullSettings(rounding=Rounding.LEARNED)


def net() -> ir.Model:
    return build(
        "g (float[1,3,16,16] x) => (float[1,5,12,12] y) { a = Conv(x, w1, b1) r = Relu(a) y = Conv(r, w2, b2) }",
        w1=normal(8, 3, 3, 3, seed=1),
        b1=normal(8, seed=2),
        w2=normal(5, 8, 3, 3, seed=3),
        b2=normal(5, seed=4),
    )


def quantized(choice: Choice, resources: Resources) -> QuantizedModel:
    model = net()
    return Quantizer(model, choice, replace(resources, samples=samples_of(model, 10))).run()


@pytest.mark.parametrize(("best", "rounding"), [(0, Rounding.LEARNED), (1, Rounding.NEAREST)])
def test_a_network_that_gains_nothing_is_quantized_from_all_samples(best: int, rounding: Rounding) -> None:
    seen: list[QuantizedModel] = []

    def learn(starts: Sequence[QuantizedModel], _: ir.Model, __: Learning) -> QuantizedModel:
        seen[:] = starts
        return starts[best]

    learning = Learning(unlearned=Rounding.NEAREST)
    resources = Resources(None, CalibrationContext(), learn=learn)
    found = quantized(Choice(FULL, target_spec("CPU"), learning=learning), resources)
    plain = quantized(Choice(replace(FULL, rounding=rounding), target_spec("CPU")), resources)
    for name, integers in plain.q_weights.items():
        np.testing.assert_array_equal(found.q_weights[name], integers)
    biases = [clone(each.model).graph.initializers["b2"].const_value for each in (found, plain, seen[best])]
    arrays = [bias.numpy() for bias in biases if bias is not None]
    np.testing.assert_array_equal(arrays[0], arrays[1])
    assert not np.array_equal(arrays[0], arrays[2])  # corrected by means over fewer samples


def test_a_network_that_gains_is_returned() -> None:
    learnt: list[QuantizedModel] = []

    def learn(starts: Sequence[QuantizedModel], _: ir.Model, __: Learning) -> QuantizedModel:
        learnt.append(replace(starts[0]))
        return learnt[0]

    resources = Resources(None, CalibrationContext(), learn=learn)
    assert quantized(Choice(FULL, target_spec("CPU"), learning=Learning()), resources) is learnt[0]
