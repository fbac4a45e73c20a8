from __future__ import annotations

import numpy as np
import pytest

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.container import MsModel, MsNode, MsQuant, MsTensor, from_bytes, to_bytes
from converter_lite.formats.mindspore_lite.enums import Compression, DataType, Format, QuantType
from converter_lite.formats.mindspore_lite.schema import OPERATORS, SCHEMA


def small(quant: MsQuant | None = None) -> MsModel:
    weight = MsTensor("w", DataType.INT8, (4, 2), np.arange(8, dtype=np.int8), quant=quant)
    attributes = {"kernel_size": [3, 1], "format": 1, "group": 2, "activation_type": 3}
    return MsModel(
        "net",
        inputs=[0],
        outputs=[2],
        nodes=[MsNode("conv", "Conv2DFusion", [0, 1], [2], attributes, QuantType.WEIGHT)],
        tensors=[
            MsTensor("x", DataType.FLOAT32, (1, 2, 3, 4)),
            weight,
            MsTensor("y", DataType.FLOAT32, (), format=Format.NCHW),
        ],
    )


def test_everything_that_is_written_is_read() -> None:
    per_channel = MsQuant(
        np.array([0.5, 0.25, 1e-30, 3.0]),
        np.array([0, -3, 7, 127], np.int32),
        5,
        np.array([1, 0.5, 1, 1], np.float32),
        np.array([0, 0, -2, 0], np.float32),
    )
    model = from_bytes(to_bytes(small(per_channel)))
    assert (model.name, model.version) == ("net", "MindSpore Lite 2.0.0")
    assert (model.inputs, model.outputs) == ([0], [2])
    node = model.nodes[0]
    assert (node.name, node.op, node.quant_type) == ("conv", "Conv2DFusion", QuantType.WEIGHT)
    assert node.attributes["kernel_size"].tolist() == [3, 1]
    assert (node.attributes["format"], node.attributes["group"], node.attributes["activation_type"]) == (1, 2, 3)
    tensor = model.tensors[1]
    assert bytes(tensor.data) == bytes(range(8))
    assert tensor.quant is not None
    for name in ("scale", "zero_point", "var_corr", "mean_corr"):
        np.testing.assert_array_equal(getattr(tensor.quant, name), getattr(per_channel, name))
    assert tensor.quant.bits == 5
    assert (model.tensors[2].dims, model.tensors[2].format) == ((), Format.NCHW)


def test_fields_that_were_not_written_have_the_defaults_of_the_schema() -> None:
    attributes = from_bytes(to_bytes(small())).nodes[0].attributes
    assert attributes["mode"] == 0
    assert "pad_list" not in attributes


def test_parameters_take_twenty_bytes_per_channel_and_corrections_eight_more() -> None:
    def size(channels: int, corrected: bool) -> int:
        mean = np.full(channels, 0.5 if corrected else 0, np.float32)
        ones = np.ones(channels, np.float32)
        scale, zeros = np.linspace(0.1, 0.7, channels), np.arange(channels, dtype=np.int32)
        return len(to_bytes(small(MsQuant(scale, zeros, 8, ones, mean))))

    assert size(1000, False) - size(500, False) == pytest.approx(500 * 20, abs=16)
    assert size(1000, True) - size(500, True) == pytest.approx(500 * 28, abs=16)


def test_operators_keep_their_published_numbers() -> None:
    numbers = {"Abs": 1, "Conv2DFusion": 35, "MatMulFusion": 89, "QuantDTypeCast": 113, "DynamicQuant": 203}
    assert {name: OPERATORS.index(name) for name in numbers} == numbers
    assert [f.name for f in SCHEMA.fields("ReduceFusion")] == ["keep_dims", "mode", "reduce_to_end", "coeff"]


def test_a_file_of_something_else_is_refused() -> None:
    with pytest.raises(FormatError, match="not a MindSpore Lite model"):
        from_bytes(b"\x08\x00\x00\x00ONNX" + bytes(100))


@pytest.mark.parametrize("change", ["tensor", "dtype", "compression", "operator"])
def test_numbers_that_mean_nothing_are_named(change: str) -> None:
    model = small()
    if change == "tensor":
        model.nodes[0].inputs = [0, 9]
    elif change == "dtype":
        model.tensors[0].dtype = 99  # type: ignore[assignment]
    elif change == "compression":
        model.tensors[1].compression = 77  # type: ignore[assignment]
    else:
        data = to_bytes(small())
        place = data.rindex(bytes([OPERATORS.index("Conv2DFusion")]))
        with pytest.raises(FormatError):
            from_bytes(data[:place] + b"\xff" + data[place + 1 :])
        return
    with pytest.raises(FormatError, match=r"9|99|77"):
        from_bytes(to_bytes(model))


def test_a_compressed_weight_keeps_its_encoding() -> None:
    model = small(MsQuant.of(1.0, 0, 3))
    model.tensors[1].data, model.tensors[1].compression = b"\x01\x02\x03", Compression.BITPACKING
    tensor = from_bytes(to_bytes(model)).tensors[1]
    assert (bytes(tensor.data), tensor.compression) == (b"\x01\x02\x03", Compression.BITPACKING)
