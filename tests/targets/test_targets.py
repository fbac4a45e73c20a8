from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
import pytest

from converter_lite.config.names import TargetDevice
from converter_lite.errors import TargetError
from converter_lite.targets.devices import TARGETS, target_spec
from converter_lite.targets.operators import OPERATORS, WEIGHTED, Role


@pytest.mark.parametrize("name", TARGETS)
def test_tables_speak_of_known_operators_only(name: str) -> None:
    spec = TARGETS[name]
    assert spec.name == name
    assert spec.integer <= OPERATORS.keys()
    assert spec.per_channel_operators <= set(WEIGHTED)
    assert spec.float_output <= spec.integer
    assert spec.attributes.keys() <= spec.integer
    assert spec.note


@pytest.mark.parametrize("name", TARGETS)
def test_grids_are_of_eight_bits_per_tensor_and_weights_symmetric(name: str) -> None:
    spec = TARGETS[name]
    assert (spec.activation.bits, spec.activation.axis) == (8, None)
    assert (spec.weight.bits, spec.weight.axis, spec.weight.symmetric, spec.weight.signed) == (8, None, True, True)


@pytest.mark.parametrize("name", TARGETS)
def test_every_device_multiplies_in_integers_and_clamps(name: str) -> None:
    assert {"Conv", "Gemm", "MatMul", "Relu", "Clip"} <= TARGETS[name].integer


def test_what_distinguishes_the_devices() -> None:
    assert TARGETS["DSP"].integer == OPERATORS.keys()
    assert not TARGETS["DSP"].per_channel
    assert not TARGETS["DSP"].activation.signed
    assert TARGETS["NVGPU"].activation.symmetric
    assert not TARGETS["NVGPU"].quantize_bias
    assert TARGETS["NVGPU"].float_addend
    assert not TARGETS["X86"].per_channel
    assert TARGETS["ARM"].per_channel
    assert TARGETS["ASCEND"].integer == {"Conv", "Gemm", "MatMul", "Relu", "Clip"}


def test_every_device_of_the_configuration_has_a_table() -> None:
    offered = {device.value for device in TargetDevice}
    assert offered <= TARGETS.keys()


def test_fixed_ranges_hold_zero() -> None:
    for operator in OPERATORS.values():
        assert (operator.role is Role.FIXED) == (operator.fixed_range is not None)
        if operator.fixed_range is not None:
            low, high = operator.fixed_range
            assert low <= 0 < high


def test_an_unknown_device_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(TargetError, match="did you mean NVGPU"):
        target_spec("NVGP")
    with pytest.raises(TargetError, match="known: CPU, NVGPU"):
        target_spec("QUANTUM")


@pytest.mark.parametrize("name", TARGETS)
def test_a_node_without_inputs_stays_float(name: str) -> None:
    """Random numbers, or a constant that is an output of the network."""
    spec = replace(TARGETS[name], between=TARGETS[name].activation)
    assert spec.capability(ir.node("RandomUniform", [], attributes={"shape": [4]})).integer
