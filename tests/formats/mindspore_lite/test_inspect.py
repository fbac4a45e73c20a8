from __future__ import annotations

from converter_lite.formats.base import as_table
from converter_lite.formats.mindspore_lite.exporter.table import FAMILIES, LOWERINGS
from converter_lite.formats.mindspore_lite.exporter.writer import write
from converter_lite.formats.mindspore_lite.importer.reader import read
from converter_lite.formats.mindspore_lite.inspect import operator_rows, tensor_rows
from converter_lite.formats.mindspore_lite.policy import MS_CPU, PARAMETER_BYTES, economical_spec
from converter_lite.kernels.params import QuantSpec
from tests.formats.mindspore_lite.models import convolutional, weights_quantized


def test_rows_show_operators_shapes_quantization_and_encoding() -> None:
    model = read(write(weights_quantized(convolutional(), 4)))
    operators, tensors = operator_rows(model), tensor_rows(model)
    assert operators[0].operator == "Conv2DFusion"
    assert operators[0].quantization == "weight"
    assert operators[0].outputs == "1x8x8x8"
    assert "pad_list=[1,1,1,1]" in operators[0].attributes
    weight = next(row for row in tensors if row.name == "w0")
    assert (weight.kind, weight.shape, weight.encoding) == ("constant", "8x3x3x3", "bitpacking")
    assert weight.quantization == "4 bits, 8 channels"
    assert weight.bytes == 8 * 27 // 2
    assert as_table(tensors)[0][:3] == ["number", "name", "kind"]


def test_no_operator_is_in_two_families() -> None:
    assert sum(len(family) for family in FAMILIES) == len(LOWERINGS)
    assert set(LOWERINGS) >= MS_CPU.integer | MS_CPU.weight_only


def test_tiny_channels_share_one_scale_and_get_wider_integers_of_the_same_size() -> None:
    spec = QuantSpec(8, axis=0)
    depthwise = economical_spec(spec, channels=64, elements=64 * 9)
    assert depthwise.axis is None
    assert depthwise.bits == 16
    per_channel_bytes = 64 * 9 * 8 / 8 + PARAMETER_BYTES * 64
    assert 64 * 9 * depthwise.bits / 8 <= per_channel_bytes
    assert economical_spec(spec, channels=64, elements=64 * 576) == spec
