"""Models that are newer than the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from converter_lite import ConvertRequest, convert
from converter_lite.errors import ModelError
from converter_lite.formats.onnx.versions import SURE_IR_VERSION, SURE_OPSET, fit_to_engine
from converter_lite.graph import opset
from converter_lite.passes.opset import minimal_ir_version
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.support import assert_same_outputs, build, build_proto, normal, random_feed

NEWEST = onnx.defs.onnx_opset_version()
FILE = Path("model.onnx")

newer = pytest.mark.skipif(NEWEST < 24, reason="this onnx package knows no newer operator set than runtimes do")


class Knows:
    """An engine that loads operator sets and file versions up to these."""

    def __init__(self, version: int, ir_version: int) -> None:
        self.limits = (version, ir_version)
        self.loaded = 0

    def session(self, model: Any, **_: Any) -> Any:
        self.loaded += 1
        proto = onnx.load_model_from_string(model)
        if proto.opset_import[0].version > self.limits[0] or proto.ir_version > self.limits[1]:
            raise ModelError("unsupported")


def convolution(version: int, ir_version: int) -> ir.Model:
    return build(
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y) { c = Conv(x, w) y = Relu(c) }",
        opset=version,
        ir_version=ir_version,
        w=normal(4, 3, 3, 3),
    )


@pytest.mark.parametrize(("version", "ir_version"), [(13, 8), (SURE_OPSET, SURE_IR_VERSION)])
def test_what_every_engine_loads_is_not_tried(version: int, ir_version: int) -> None:
    engine = Knows(0, 0)
    model = convolution(version, ir_version)
    assert fit_to_engine(model, FILE, engine) is model
    assert (engine.loaded, opset(model), model.ir_version) == (0, version, ir_version)


def test_versions_that_the_engine_loads_are_kept() -> None:
    model = fit_to_engine(convolution(22, 11), FILE, Knows(22, 11))
    assert (opset(model), model.ir_version) == (22, 11)


def test_a_file_version_that_is_newer_than_the_operator_set_needs_is_lowered() -> None:
    model = fit_to_engine(convolution(17, 13), FILE, Knows(22, 10))
    assert (opset(model), model.ir_version) == (17, minimal_ir_version(17))


@newer
def test_an_operator_set_above_the_engine_s_is_lowered_and_told(caplog: pytest.LogCaptureFixture) -> None:
    model = convolution(24, 11)
    lowered = fit_to_engine(model, FILE, Knows(22, 10))
    assert (opset(lowered), lowered.ir_version) == (22, 10)
    assert "operator set 24 is newer" in caplog.text


@newer
def test_operators_that_only_take_more_types_are_taken_back() -> None:
    model = build("g (float[2,3] x) => (float[3,2] y) { y = Transpose<perm=[1,0]>(x) }", opset=23, ir_version=11)
    lowered = fit_to_engine(model, FILE, Knows(21, 10))
    assert opset(lowered) == 21
    feed = random_feed(lowered)
    assert DEFAULT_ENGINE.session(ir.to_proto(lowered).SerializeToString()).run(feed)["y"].shape == (3, 2)


@newer
def test_operators_that_the_engine_cannot_have_are_named() -> None:
    model = build(
        "g (float[2,8] x) => (float[2,8] y) { y = RMSNormalization(x, s) }", opset=23, ir_version=11, s=normal(8)
    )
    with pytest.raises(
        ModelError, match="loads, 22, and these operators are not the same there: RMSNormalization"
    ) as caught:
        fit_to_engine(model, FILE, Knows(22, 10))
    assert caught.value.where == "model.onnx"
    assert "operator set 22" in str(caught.value)


@pytest.mark.parametrize(("version", "ir_version"), [(NEWEST, minimal_ir_version(NEWEST)), (17, onnx.IR_VERSION)])
def test_the_newest_versions_that_onnx_writes_convert(version: int, ir_version: int, tmp_path: Path) -> None:
    proto = build_proto(
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y) { c = Conv(x, w) y = Relu(c) }",
        opset=version,
        ir_version=ir_version,
        w=normal(4, 3, 3, 3),
    )
    onnx.save(proto, tmp_path / "model.onnx")
    convert(ConvertRequest(tmp_path / "model.onnx", str(tmp_path / "out"), save_type="ONNX"))
    assert_same_outputs(convolution(13, 8), tmp_path / "out.onnx", random_feed(convolution(13, 8)))
