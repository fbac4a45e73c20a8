"""The conversion as a whole: what it promises whatever the request, with an engine that can be made to fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.config import config_from_mapping
from converter_lite.errors import ConfigError, ModelError, QualityError
from converter_lite.log import NORMAL, Log
from converter_lite.pipeline.convert import run
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.runtime.engine import DEFAULT_ENGINE, Feed, Session
from converter_lite.system.files import destination, refuse_overwrite, transaction
from tests.cli.conftest import workshop as workshop
from tests.cli.workshop import FULL, WEIGHT, Config, Workshop, changed, model_proto
from tests.support import build, build_proto, normal


class _Spoilt:
    """A session whose outputs are changed."""

    def __init__(self, session: Session, change: Any) -> None:
        self._session = session
        self._change = change
        self.output_names = session.output_names

    def run(self, feed: Feed) -> dict[str, np.ndarray]:
        return {name: self._change(array) for name, array in self._session.run(feed).items()}


class WrittenFileEngine:
    """The real engine, except for the session of the written file."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def session(self, model: bytes | str | Path, **options: Any) -> Session:
        session = DEFAULT_ENGINE.session(model, **options)
        return _Spoilt(session, self.change) if isinstance(model, Path) and model.name == "out.onnx" else session


def request(config: Config | None = None, **options: Any) -> ConvertRequest:
    settings = config_from_mapping({name: dict(keys) for name, keys in config.items()}) if config is not None else None
    return ConvertRequest(
        **{
            "model_file": Path("model.onnx"),
            "output_file": Path("out"),
            "config": settings,
            "save_type": "ONNX",
            **options,
        }
    )


def fail(array: np.ndarray) -> np.ndarray:
    raise ModelError("of the test")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda y: y * np.float32(np.nan), QualityError, "NaN or infinite"),
        (lambda y: y[:, :-1], QualityError, "shape"),
        (lambda y: -y, QualityError, "quality gate 0.95"),
        (fail, ModelError, "of the test"),
    ],
)
def test_a_written_file_that_fails_its_proof_is_not_kept(
    workshop: Workshop, change: Any, error: type[Exception], message: str
) -> None:
    (workshop.folder / "out.onnx").write_bytes(b"old")
    before = workshop.content()
    with pytest.raises(error, match=message):
        run(request(FULL), Log(), engine=WrittenFileEngine(change))
    assert workshop.content() == before


def test_random_data_do_not_gate_but_must_stay_finite(workshop: Workshop) -> None:
    result = run(request(WEIGHT), Log(), engine=WrittenFileEngine(lambda y: -y))
    assert result.artefacts[0].accuracy[0].cosine == pytest.approx(-1, abs=0.01)
    with pytest.raises(QualityError, match="NaN or infinite"):
        run(request(WEIGHT), Log(), engine=WrittenFileEngine(lambda y: y * np.float32(np.inf)))


def test_the_proof_uses_at_most_sixteen_samples(workshop: Workshop) -> None:
    samples = [normal(1, 3, 8, 8, seed=seed) for seed in range(20)]
    config = config_from_mapping({"common_quant_param": {"quant_type": "FULL_QUANT"}}, external_data=True)
    assert run(request(config=None, calibration_data=samples), Log()).artefacts[0].samples == 16
    result = run(replace(request(calibration_data=samples[:7]), config=config), Log())
    assert (result.artefacts[0].samples, result.artefacts[0].real_samples) == (7, True)


def test_the_result_names_stages_and_memory(workshop: Workshop) -> None:
    result = run(request(FULL), Log())
    stages = [
        "read",
        "optimize",
        "check",
        "equalization",
        "channel order",
        *("load samples", "input check"),  # beside the two before
        "calibration",
        "quantization",
        "bias correction",
    ]
    stages += ["write", "prove"]
    assert list(result.seconds) == stages
    assert result.peak_memory > 0
    assert result.model_bytes == workshop.model.stat().st_size


def test_the_log_does_not_grow_with_the_model(workshop: Workshop) -> None:
    lengths = []
    for count in (3, 60):
        nodes = " ".join(f"h{i + 1} = MatMul(h{i}, w{i})" for i in range(count))
        graph = f"g (float[N,8] h0) => (float[N,8] h{count}) {{ {nodes} }}"
        onnx.save(model_proto(graph, **{f"w{i}": normal(8, 8, seed=i) for i in range(count)}), "model.onnx")
        with Path("log.txt").open("w", encoding="utf-8") as stream:
            run(request(WEIGHT), Log(NORMAL, stream))
        lengths.append(len(Path("log.txt").read_text(encoding="utf-8").splitlines()))
    assert lengths[0] == lengths[1]


def test_a_tensor_that_is_input_and_output_at_once_stays(workshop: Workshop) -> None:
    outputs = "float[N,20,8,8] y, float[N,3,8,8] same"
    graph = f"g (float[N,3,8,8] x) => ({outputs}) {{ y = Conv<pads=[1,1,1,1]>(x, w_conv) same = Identity(x) }}"
    onnx.save(model_proto(graph), "model.onnx")
    for config in (None, FULL, WEIGHT):
        run(request(config), Log())
        assert [value.name for value in onnx.load("out.onnx").graph.output] == ["y", "same"]


@pytest.mark.parametrize(("seed", "warnings"), [("", 1), ("<seed=3.0>", 0)])
def test_numbers_that_are_drawn_in_each_run_are_a_warning(workshop: Workshop, seed: str, warnings: int) -> None:
    """The proof compares two draws."""
    graph = f"g (float[2,8] x) => (float[2,8] y) {{ n = RandomNormalLike{seed}(x) y = Add(x, n) }}"
    onnx.save(model_proto(graph), "model.onnx")
    said = [warning for warning in run(request(), Log()).warnings if "is not deterministic" in warning]
    assert len(said) == warnings


def test_a_weight_of_several_nodes_is_stored_once(workshop: Workshop) -> None:
    graph = "g (float[N,8] x) => (float[N,8] y) { a = MatMul(x, w) r = Relu(a) y = MatMul(r, w) }"
    onnx.save(model_proto(graph, w=normal(8, 8)), "model.onnx")
    run(request(WEIGHT), Log())
    stored = [tensor.name for tensor in onnx.load("out.onnx").graph.initializer if tensor.name.endswith("_quantized")]
    assert stored == ["w_quantized"]


def test_names_of_inputs_and_outputs_are_kept(workshop: Workshop) -> None:
    for config in (None, FULL, WEIGHT):
        run(request(config), Log())
        graph = onnx.load("out.onnx").graph
        assert ([value.name for value in graph.input], [value.name for value in graph.output]) == (["x"], ["y"])


def test_files_of_a_transaction_are_replaced_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    original = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if self.name == "new_c":
            raise OSError(28, "No space left on device", str(target))
        return original(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(Exception, match="No space left"), transaction(tmp_path) as files:
        for name in ("a", "b", "c"):
            made = files.work / f"new_{name}"
            made.write_text("new", encoding="utf-8")
            files.add(made, tmp_path / name)
        files.commit()
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {"a": "old", "b": "old"}


def test_a_transaction_that_is_not_committed_leaves_no_folder(tmp_path: Path) -> None:
    with transaction(tmp_path / "a/b") as files:
        (files.work / "made").write_text("", encoding="utf-8")
    assert list(tmp_path.iterdir()) == []


def test_destinations_get_their_suffix_once() -> None:
    assert destination(Path("m"), ".onnx") == destination(Path("m.onnx"), ".onnx") == Path("m.onnx")
    assert destination(Path("m.onnx"), ".ms") == Path("m.onnx.ms")


def test_two_outputs_of_a_run_have_different_paths(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="another output"):
        refuse_overwrite(tmp_path / "x", [], also=[tmp_path / "sub/../x"])


@pytest.mark.parametrize("strategy", ["ALWC", "ACWL"])
def test_dynamic_products_with_a_bias_keep_the_scale_of_each_row(workshop: Workshop, strategy: str) -> None:
    graph = "g (float[1,16,64] x) => (float[1,16,32] y) { p = MatMul(x, w) y = Add(p, b) }"
    onnx.save(model_proto(graph, w=normal(64, 32), b=normal(32)), "model.onnx")
    sections = {
        "common_quant_param": {"quant_type": "DYNAMIC_QUANT"},
        "dynamic_quant_param": {"quant_strategy": strategy},
    }
    rows = normal(1, 16, 64, seed=3) * np.geomspace(5, 0.5, 16, dtype=np.float32).reshape(1, 16, 1)
    config = config_from_mapping(sections, external_data=True)
    result = run(replace(request(calibration_data=[rows]), config=config), Log())
    accuracy = result.artefacts[0].accuracy[0]
    assert accuracy.max_error < 0.02 * accuracy.max_value


DATA = {"data_preprocess_param": FULL["data_preprocess_param"]}


@pytest.mark.parametrize(
    ("bits", "keys", "is_fitted"),
    [
        ("4", {}, True),
        ("4", {"rounding": "NEAREST"}, False),
        ("8", {}, False),
        ("8", {"rounding": "ADAPTIVE"}, True),
        ("8", {"quant_strategy": "GPTQ"}, True),
    ],
)
def test_weights_are_fitted_to_the_calibration_files_where_the_keys_say_so(
    workshop: Workshop, bits: str, keys: dict[str, str], is_fitted: bool
) -> None:
    files = []
    for number, section in enumerate((keys, {"rounding": "NEAREST"})):
        config = changed(WEIGHT, common_quant_param={"bit_num": bits}, weight_quant_param=section, **DATA)
        run(request(config, output_file=Path(f"out{number}"), min_cosine=0.5), Log())
        files.append(Path(f"out{number}.onnx").read_bytes())
    assert (files[0] != files[1]) == is_fitted


@pytest.mark.parametrize("keys", [{"rounding": "ADAPTIVE"}, {"equalization": "false"}, {"smooth_alpha": "0.3"}])
def test_keys_of_full_quantization_change_the_result_and_pass_the_gate(
    workshop: Workshop, keys: dict[str, str]
) -> None:
    graph = """g (float[N,3,8,8] x) => (float[N,4,8,8] y) {
        a = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(a) y = Conv<pads=[1,1,1,1]>(r, v, c) }"""
    constants = {"w": normal(6, 3, 3, 3), "b": normal(6), "v": normal(4, 6, 3, 3), "c": normal(4)}
    onnx.save(model_proto(graph, **constants), "model.onnx")
    run(request(FULL), Log())
    run(request(changed(FULL, full_quant_param=keys), output_file=Path("other")), Log())
    assert Path("out.onnx").read_bytes() != Path("other.onnx").read_bytes()


def test_samples_of_the_caller_serve_adaptive_rounding_and_their_absence_is_refused(workshop: Workshop) -> None:
    keys = changed(WEIGHT, common_quant_param={"bit_num": "4"}, weight_quant_param={"rounding": "ADAPTIVE"})
    config = config_from_mapping(keys, external_data=True)
    samples = [{"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(4)]
    result = run(
        ConvertRequest(
            model_file=Path("model.onnx"),
            output_file=Path("fitted"),
            config=config,
            calibration_data=samples,
            min_cosine=0.5,
        ),
        Log(),
    )
    assert result.artefacts[0].path.is_file()
    with pytest.raises(ConfigError, match="fitted to calibration samples, and there are none"):
        run(ConvertRequest(model_file=Path("model.onnx"), output_file=Path("refused"), config=config), Log())
    assert not Path("refused.onnx").exists()


@pytest.mark.parametrize("method", ["MAX_MIN", "KL", "REMOVAL_OUTLIER"])
def test_a_cache_changes_no_byte_of_the_result(workshop: Workshop, method: str) -> None:
    config = changed(FULL, full_quant_param={"activation_quant_method": method})
    digests = [
        run(request(config, output_file=Path(f"out{i}"), cache=cache), Log()).artefacts[0].sha256
        for i, cache in enumerate((None, Path("cache"), "cache"))
    ]
    assert len(set(digests)) == 1
    assert [path.suffix for path in (workshop.folder / "cache").iterdir()] == [".npz"]


def test_statistics_of_other_samples_or_of_another_layout_are_other_statistics(workshop: Workshop) -> None:
    for i, config in enumerate((FULL, changed(FULL, full_quant_param={"activation_quant_method": "MSE"}))):
        run(request(config, output_file=Path(f"out{i}"), cache=Path("cache")), Log())
    assert len(list((workshop.folder / "cache").iterdir())) == 1
    run(request(changed(FULL, data_preprocess_param={"calibrate_size": "3"}), cache=Path("cache"), min_cosine=0), Log())
    assert len(list((workshop.folder / "cache").iterdir())) == 2
    run(request(FULL, cache=Path("cache"), min_cosine=0, input_data_format="NCHW"), Log())
    assert len(list((workshop.folder / "cache").iterdir())) == 3


class CountingEngine:
    """The real engine; counts runs."""

    def __init__(self) -> None:
        self.runs = 0

    def session(self, model: bytes | str | Path, **options: Any) -> Session:
        return _Spoilt(DEFAULT_ENGINE.session(model, **options), self.count)

    def count(self, array: np.ndarray) -> np.ndarray:
        self.runs += 1
        return array


@pytest.mark.parametrize(("shape", "runs"), [("batch,2,4", 2), ("1,length,4", 3)])
def test_only_lengths_that_are_open_are_tried(workshop: Workshop, shape: str, runs: int) -> None:
    ir.save(build(f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Relu(x) }}"), "model.onnx")
    engine = CountingEngine()
    run(request(proof_samples=1), Log(), engine=engine)
    assert engine.runs == runs


def test_what_stays_float_of_a_float16_model_takes_no_more_space_than_before(workshop: Workshop) -> None:
    """DYNAMIC_QUANT computes everything else in float32."""
    model = build(
        "g (float16[1,3,8,8] x) => (float16[1,64] y) { a = Conv(x, w) m = GlobalAveragePool(a) f = Flatten(m) y = Gemm(f, v) }",
        w=normal(64, 3, 8, 8).astype(np.float16),
        v=normal(64, 64).astype(np.float16),
    )
    ir.save(model, workshop.folder / "model.onnx")
    config = {"common_quant_param": {"quant_type": "DYNAMIC_QUANT", "skip_quant_node": "Conv_0"}}
    run(request(config), log=Log(NORMAL), engine=DEFAULT_ENGINE)
    written = workshop.folder / "out.onnx"
    kinds = {value.name: value.dtype for value in ir.load(written).graph.initializers.values()}
    assert kinds["w_float16"] is ir.DataType.FLOAT16
    assert written.stat().st_size < (workshop.folder / "model.onnx").stat().st_size


@pytest.mark.parametrize(
    ("columns", "options", "is_spelled_out"),
    [
        (1200, {"config": WEIGHT}, True),
        (1200, {"config": WEIGHT, "optimize": "none"}, False),
        (1200, {}, False),
        (100, {"config": WEIGHT}, False),
    ],
)
def test_fourier_transforms_are_spelled_out_where_something_is_quantized_and_little_is_added(
    workshop: Workshop, columns: int, options: dict[str, Any], is_spelled_out: bool
) -> None:
    del workshop
    text = """g (float[1,600,1] x) => (float[1,f,k] y) {
        s = STFT<onesided=1>(x, step, window) q = Mul(s, s) p = ReduceSum<keepdims=0>(q, last) y = MatMul(p, w) }"""
    constants = {"step": np.array(64), "window": np.hanning(256).astype(np.float32), "last": np.array([-1])}
    ir.save(build(text, opset=17, w=normal(129, columns), **constants), "model.onnx")
    run(request(**options), Log())
    found = {node.op_type for node in onnx.load("out.onnx").graph.node}
    assert ("STFT" not in found) == is_spelled_out


@pytest.mark.parametrize("target_cosine", [{}, {"target_cosine": "0.9"}])
def test_the_name_of_a_class_is_an_output(tmp_path: Path, target_cosine: dict[str, str]) -> None:
    graph = "g (float[2,8] x) => (float[2,4] y, string[2] name) { y = MatMul(x, w) i = ArgMax<axis=1, keepdims=0>(y) "
    names = np.array([b"cat", b"dog", b"cow", b"hen"], object)
    proto = build_proto(graph + "name = Gather(names, i) }", w=normal(8, 4), names=names)
    onnx.save(proto, tmp_path / "model.onnx")
    config = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "4", **target_cosine}}
    result = run(request(config, model_file=tmp_path / "model.onnx", output_file=tmp_path / "out"), Log())
    assert [output.name for output in result.artefacts[0].accuracy] == ["y", "name"]
    assert result.artefacts[0].accuracy[1].max_value == 1
