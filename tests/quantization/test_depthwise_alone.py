"""Depthwise convolutions between nodes that compute in float."""

from __future__ import annotations

import pytest

from converter_lite.formats.mindspore_lite.policy import MS_CPU
from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.quantization.placement import STANDS_ALONE, decide_nodes
from converter_lite.targets.devices import CPU, DSP
from converter_lite.targets.policy import Policy
from tests.support import build, normal

DEVICES = [MS_CPU, PaddlePolicy("arm")]
TEXT = """g (float[1,16,12,12] x) => (float[1,16,12,12] y) {{
    a = Conv(x, w) {0} d = Conv<group=16, pads=[1,1,1,1]>(h, v) {1} y = Conv(k, u) }}"""
FLOAT = ("h = HardSwish(a)", "k = HardSwish(d)")
GATE = ("h = HardSwish(a)", "s = Sigmoid(d) k = Mul(d, s)")
CLAMPED = ("h = HardSwish(a)", "r = Relu(d) k = HardSwish(r)")


def reasons(target: Policy, before: str, behind: str) -> dict[str, str]:
    model = build(
        TEXT.format(before, behind), opset=14, w=normal(16, 16, 1, 1), v=normal(16, 1, 3, 3), u=normal(16, 16, 1, 1)
    )
    plan = decide_nodes(model, target, frozenset())
    return {str(node.outputs[0].name): plan.nodes[node.name or ""].reason for node in model.graph}


@pytest.mark.parametrize("target", DEVICES, ids=lambda target: target.name)
@pytest.mark.parametrize("nodes", [FLOAT, GATE, CLAMPED], ids=["HardSwish", "SiLU", "Relu and HardSwish"])
def test_one_that_stands_alone_stays_float(target: Policy, nodes: tuple[str, str]) -> None:
    found = reasons(target, *nodes)
    assert found["d"] == STANDS_ALONE
    assert found.get("r", "float")
    assert not found["a"]
    assert not found["y"]


@pytest.mark.parametrize("target", DEVICES, ids=lambda target: target.name)
@pytest.mark.parametrize(
    "nodes",
    [("h = Relu(a)", "k = HardSwish(d)"), ("h = HardSwish(a)", "k = Relu(d)"), ("h = Relu(a)", "k = Relu(d)")],
    ids=["before", "behind", "both"],
)
def test_one_with_an_integer_neighbour_computes_with_integers(target: Policy, nodes: tuple[str, str]) -> None:
    assert reasons(target, *nodes)["d"] != STANDS_ALONE


@pytest.mark.parametrize("target", [CPU, DSP], ids=lambda target: target.name)
def test_devices_with_measured_kernels_or_integers_only_decide_otherwise(target: Policy) -> None:
    assert STANDS_ALONE not in reasons(target, *FLOAT).values()
