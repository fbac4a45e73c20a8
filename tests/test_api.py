"""The programming interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter_lite
from converter_lite import Converter, ConvertRequest, convert, quant_post_dynamic, quant_post_static
from converter_lite.config import config_from_mapping
from converter_lite.errors import ConfigError, ConverterError, DataError, ModelError, QualityError, UsageError
from tests.cli.conftest import workshop as workshop
from tests.cli.workshop import DYNAMIC, FULL, WEIGHT, Workshop, ini, model_proto
from tests.formats.paddle.inference_models import float_model, save
from tests.support import normal


def samples(count: int = 4) -> Iterator[dict[str, np.ndarray]]:
    """The samples of ``bins/`` in the model's own layout."""
    for index in range(count):
        yield {"x": np.fromfile(f"bins/{index:03}.bin", np.float32).reshape(1, 8, 8, 3).transpose(0, 3, 1, 2)}


FULL_KEYS = {"quant_type": "FULL_QUANT"}


def test_every_public_name_is_there_and_no_other() -> None:
    for name in converter_lite.__all__:
        assert getattr(converter_lite, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'quantize'"):
        _ = converter_lite.quantize


def test_a_request_converts_like_the_command_line(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    workshop.succeed(config=FULL)
    request = ConvertRequest(Path("model.onnx"), Path("api"), config_file=Path("quant.cfg"), save_type=("ONNX",))
    result = convert(request)
    assert Path("api.onnx").read_bytes() == Path("out.onnx").read_bytes()
    assert [artefact.path for artefact in result.artefacts] == [Path("api.onnx")]
    assert result.artefacts[0].accuracy[0].cosine > 0.99
    assert result.plans["ONNX"].quantized_nodes
    assert result.to_json()["status"] == 0
    assert capsys.readouterr().out == ""


def test_paths_may_be_text(workshop: Workshop) -> None:
    (workshop.folder / "quant.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    result = convert(ConvertRequest("model.onnx", "sub/api", config_file="quant.cfg", save_type="ONNX"))  # type: ignore[arg-type]
    assert result.artefacts[0].path == Path("sub/api.onnx")


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"fmk": "OM"}, "--fmk"),
        ({"fmk": "onnx"}, "--fmk"),
        ({"weight_file": "w"}, "--weightFile"),
        ({"input_data_format": "nhwc"}, "--inputDataFormat"),
        ({"input_data_type": "FLOAT32"}, "--inputDataType"),
        ({"output_data_type": "INT64"}, "--outputDataType"),
        ({"optimize": "fast"}, "--optimize"),
        ({"optimize": "none:x"}, "--optimize"),
        ({"min_cosine": 1.5}, "--minCosine"),
        ({"min_cosine": float("nan")}, "--minCosine"),
        ({"threads": -1}, "--threads"),
        ({"threads": 5000}, "--threads"),
        ({"output_file": "folder/"}, "--outputFile"),
        ({"output_file": "~/folder/out"}, "~/folder/out"),
        ({"output_file": None}, "output_file"),
        ({"model_file": 3}, "model_file"),
        ({"model_file": b"m"}, "model_file"),
        ({"json": True}, "json"),
        ({"encrypt_key": b"00"}, "encrypt_key"),
        ({"input_shape": {"x": "1,3"}}, "input_shape of 'x'"),
        ({"input_shape": {"x": (-1, 3)}}, "input_shape of 'x'"),
        ({"input_shape": {"x": (1.5, 3)}}, "input_shape of 'x'"),
        ({"input_shape": {"x": (True, 3)}}, "input_shape of 'x'"),
        ({"input_shape": {"x": 3}}, "input_shape of 'x'"),
        ({"input_value": {"x": "3"}}, "input_value of 'x'"),
    ],
)
def test_a_request_with_a_wrong_value_is_refused_when_it_is_made(options: dict[str, Any], place: str) -> None:
    with pytest.raises(UsageError) as caught:
        ConvertRequest(**{"model_file": Path("m"), "output_file": Path("o"), **options})
    assert place in caught.value.where


def test_an_unknown_output_format_is_refused(workshop: Workshop) -> None:
    with pytest.raises(UsageError, match="did you mean ONNX"):
        convert(ConvertRequest(Path("model.onnx"), Path("api"), save_type=("ONX",)))


def test_all_errors_have_a_common_class(workshop: Workshop) -> None:
    with pytest.raises(ConverterError) as caught:
        convert(ConvertRequest(Path("absent.onnx"), Path("api")))
    assert isinstance(caught.value, ModelError)
    assert caught.value.where == "absent.onnx"


def test_a_missed_gate_is_an_error_and_leaves_nothing(workshop: Workshop) -> None:
    before = workshop.content()
    config = config_from_mapping({"common_quant_param": FULL_KEYS}, external_data=True)
    request = ConvertRequest(Path("model.onnx"), Path("a/b"), config=config, calibration_data=samples, min_cosine=1.0)
    with pytest.raises(QualityError, match="below the quality gate"):
        convert(request)
    assert workshop.content() == before


SOURCES: dict[str, Any] = {
    "generator": samples,
    "function": lambda: samples,
    "list": lambda: list(samples()),
    "arrays": lambda: [sample["x"] for sample in samples()],
    "tuples": lambda: [(sample["x"],) for sample in samples()],
    "without batch": lambda: [sample["x"][0] for sample in samples()],
    "float64": lambda: [sample["x"].astype(np.float64) for sample in samples()],
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_samples_from_python_give_the_same_file_as_bin_files(workshop: Workshop, source: Any) -> None:
    workshop.succeed(config=FULL)
    converter = Converter(calibration_data=source())
    converter.set_config_info("common_quant_param", FULL_KEYS)
    converter.convert("ONNX", "model.onnx", "api")
    assert Path("api.onnx").read_bytes() == Path("out.onnx").read_bytes()


@pytest.mark.parametrize("settings", [WEIGHT, DYNAMIC], ids=["weight", "dynamic"])
def test_samples_from_python_serve_every_quantization_type(workshop: Workshop, settings: Any) -> None:
    converter = Converter(calibration_data=samples())
    converter.set_config_info("common_quant_param", settings["common_quant_param"])
    artefact = converter.convert("ONNX", "model.onnx", "api").artefacts[0]
    assert (artefact.samples, artefact.real_samples) == (4, True)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "no sample"),
        ([np.zeros((1, 3, 8, 9), np.float32)], "shape"),
        ([np.zeros((1, 8, 8, 3), np.float32)], "shape"),
        ([{"z": np.zeros((1, 3, 8, 8), np.float32)}], "'z'"),
        ([(np.zeros((1, 3, 8, 8), np.float32),) * 2], "2 value"),
        (["text"], "numbers"),
        ({"x": np.zeros((1, 3, 8, 8), np.float32)}, "iterable"),
        (5, "iterable"),
        ([None], "numbers"),
    ],
)
def test_samples_that_do_not_fit_are_refused(workshop: Workshop, bad: Any, message: str) -> None:
    converter = Converter(calibration_data=bad)
    converter.set_config_info("common_quant_param", FULL_KEYS)
    before = workshop.content()
    with pytest.raises(DataError, match=message):
        converter.convert("ONNX", "model.onnx", "api")
    assert workshop.content() == before


def test_full_quantization_without_samples_is_refused(workshop: Workshop) -> None:
    converter = Converter()
    converter.set_config_info("common_quant_param", FULL_KEYS)
    with pytest.raises(ConfigError, match="calibrat"):
        converter.convert("ONNX", "model.onnx", "api")


def test_converter_gives_back_what_was_set_and_later_keys_win() -> None:
    converter = Converter()
    converter.set_config_info("common_quant_param", {"quant_type": "WEIGHT_QUANT", "bit_num": "8"})
    converter.set_config_info("common_quant_param", {"bit_num": 4})  # type: ignore[dict-item]
    assert converter.get_config_info() == {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "4"}}
    converter.get_config_info()["common_quant_param"]["bit_num"] = "2"
    assert converter.get_config_info()["common_quant_param"]["bit_num"] == "4"


def test_converter_adds_its_keys_to_those_of_the_file(workshop: Workshop) -> None:
    (workshop.folder / "quant.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    converter = Converter()
    converter.set_config_info("common_quant_param", {"bit_num": "4"})
    converter.convert("ONNX", "model.onnx", "four", config_file="quant.cfg")
    Converter().convert("ONNX", "model.onnx", "eight", config_file="quant.cfg")
    assert Path("four.onnx").stat().st_size < Path("eight.onnx").stat().st_size


def test_what_python_sets_completes_a_file_whose_remarks_stay(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    (workshop.folder / "quant.cfg").write_text(
        "[common_quant_param]\nbit_num=8\n[registry]\nplugin_path=x\n", encoding="utf-8"
    )
    converter = Converter(verbose=True)
    converter.set_config_info("common_quant_param", {"quant_type": "WEIGHT_QUANT", "min_quant_weight_channel": "0"})
    converter.convert("ONNX", "model.onnx", "api", config_file="quant.cfg")
    assert "quant.cfg:4 [registry] plugin_path" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("allow_unsafe_models", "false", "True or False"),
        ("proof_samples", 0, "at least 1"),
        ("executor", None, "a text"),
        ("save_type", [1], "names of formats"),
        ("input_shape", 5, "sizes by input name"),
    ],
)
def test_values_of_other_types_are_refused(name: str, value: object, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        ConvertRequest(Path("model.onnx"), Path("out"), **{name: value})  # type: ignore[arg-type]
    assert caught.value.where == name


def test_converter_refuses_unknown_keys_with_the_nearest() -> None:
    converter = Converter()
    converter.set_config_info("common_quant_param", {"quant_typ": "FULL_QUANT"})
    with pytest.raises(ConfigError, match="quant_type"):
        converter.convert("ONNX", "model.onnx", "api")
    with pytest.raises(UsageError, match="dictionary"):
        converter.set_config_info("common_quant_param", "quant_type=FULL_QUANT")  # type: ignore[arg-type]


def test_converter_attributes_reach_the_result(workshop: Workshop) -> None:
    converter = Converter(
        input_shape={"x": [2, 3, 8, 8]},
        optimize="none",
        weight_fp16=True,
        output_data_type="FLOAT16",
        save_type="ONNX",
    )
    converter.convert("ONNX", "model.onnx", "api.onnx")
    graph = onnx.load("api.onnx").graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
    assert graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert onnx.TensorProto.FLOAT16 in {tensor.data_type for tensor in graph.initializer}


def test_converter_has_no_attribute_that_it_would_ignore() -> None:
    with pytest.raises(AttributeError):
        Converter().inputshape = {"x": [1]}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable_encryption", True),
        ("encrypt_key", "30313233"),
        ("train_model", True),
        ("optimize_transformer", True),
        ("device", "Ascend"),
        ("weight_fp16", "off"),
        ("nb_fp16", "off"),
        ("infer", "false"),
        ("threads", "4"),
        ("min_cosine", "0.9"),
    ],
)
def test_converter_refuses_an_attribute_that_it_cannot_follow(workshop: Workshop, name: str, value: object) -> None:
    converter = Converter(save_type="ONNX")
    setattr(converter, name, value)
    with pytest.raises(UsageError, match=f"{name}|fp16"):
        converter.convert("ONNX", "model.onnx", "api")
    assert not Path("api.onnx").exists()


def test_converter_takes_formats_as_the_command_line_does(workshop: Workshop) -> None:
    Converter(save_type="ONNX, MINDIR_LITE").convert("ONNX", "model.onnx", "api")
    assert Path("api.onnx").is_file()
    assert Path("api.ms").is_file()


def test_a_request_writes_its_json_result(workshop: Workshop) -> None:
    result = convert(ConvertRequest(Path("model.onnx"), Path("api"), save_type=("ONNX",), json=Path("result.json")))
    assert json.loads(Path("result.json").read_text(encoding="utf-8")) == result.to_json()


@pytest.mark.parametrize("framework", ["TF", "onnx", ""])
def test_converter_refuses_other_frameworks(workshop: Workshop, framework: str) -> None:
    with pytest.raises(UsageError):
        Converter().convert(framework, "model.onnx", "api")


@pytest.mark.parametrize("algo", ["KL", "hist", "mse", "abs_max", "min_max", "avg"])
@pytest.mark.parametrize("weights", ["channel_wise_abs_max", "abs_max"])
def test_static_post_training_quantization_has_its_algorithms(workshop: Workshop, algo: str, weights: str) -> None:
    result = quant_post_static("model.onnx", "static", samples, algo=algo, weight_quantize_type=weights)
    assert Path("static.onnx").is_file()
    assert result.artefacts[0].accuracy[0].cosine > 0.9
    per_channel = result.plans["ONNX"].weights["w_conv"].is_per_channel
    assert per_channel == (weights == "channel_wise_abs_max")


def test_static_quantization_uses_as_many_samples_as_batches_say(workshop: Workshop) -> None:
    taken: list[int] = []

    def endless() -> Iterator[np.ndarray]:
        while True:
            taken.append(1)
            yield from (sample["x"] for sample in samples(1))

    result = quant_post_static("model.onnx", "static", endless(), batch_size=3, batch_nums=2, algo="min_max")
    assert result.artefacts[0].samples == 6
    assert len(taken) == 6


def test_static_quantization_leaves_other_operators_and_skipped_nodes_in_float(workshop: Workshop) -> None:
    result = quant_post_static("model.onnx", "static", samples, quantizable_op_type=["conv2d"])
    modes = {name: node.mode.value for name, node in result.plans["ONNX"].nodes.items()}
    assert (modes["node_conv_out"], modes["node_y"]) == ("integer", "float")
    result = quant_post_static("model.onnx", "static", samples, skip_nodes=["node_conv_out"])
    modes = {name: node.mode.value for name, node in result.plans["ONNX"].nodes.items()}
    assert (modes["node_conv_out"], modes["node_y"]) == ("float", "integer")


def test_static_quantization_finds_the_model_in_a_folder(workshop: Workshop) -> None:
    quant_post_static(workshop.folder, "static", samples, model_filename="model.onnx", algo="avg")
    assert Path("static.onnx").is_file()


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"model_filename": "inference.pdmodel"},
        {"model_filename": "inference.pdmodel", "params_filename": "inference.pdiparams"},
    ],
)
def test_static_quantization_takes_the_paddle_models_that_its_parameters_come_from(
    workshop: Workshop, files: dict[str, str]
) -> None:
    folder = save(Path("model"), *float_model())
    pictures = [normal(1, 3, 8, 8, seed=seed) for seed in range(4)]
    result = quant_post_static(
        executor=None,
        model_dir=folder,
        quantize_model_path="static",
        sample_generator=pictures,
        quantizable_op_type=["conv2d", "depthwise_conv2d"],
        algo="abs_max",
        save_type="ONNX,NAIVE_BUFFER",
        **files,
    )
    assert [artefact.path.name for artefact in result.artefacts] == ["static.onnx", "static.nb"]
    modes = {node.op_type: node.mode.value for node in result.plans["ONNX"].nodes.values()}
    assert (modes["Conv"], modes["Gemm"]) == ("integer", "float")


def test_dynamic_quantization_takes_a_paddle_model(workshop: Workshop) -> None:
    quant_post_dynamic(save(Path("model"), *float_model()), "folder", save_type=["ONNX"])
    assert Path("folder/quantized_model.onnx").is_file()


def test_shapes_of_the_converter_are_sizes_by_name(workshop: Workshop) -> None:
    for shapes in ({"x": 5}, [1, 3, 8, 8]):
        with pytest.raises(UsageError, match="sizes by input name"):
            Converter(input_shape=shapes).convert("ONNX", "model.onnx", "api")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"algo": "emd"},
        {"weight_quantize_type": "range_abs_max"},
        {"quantizable_op_type": ["conv3d"]},
        {"weight_bits": 5},
        {"activation_bits": 16},
        {"params_filename": "__params__"},
        {"sample_generator": None},
        {"batch_size": 0},
        {"batch_size": 2, "batch_nums": -1},
    ],
)
def test_static_quantization_refuses_what_it_does_not_know(workshop: Workshop, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        quant_post_static("model.onnx", "static", **{"sample_generator": samples, **options})
    assert not Path("static.onnx").exists()


def test_calls_that_begin_with_an_executor_are_told_where_it_goes(workshop: Workshop) -> None:
    with pytest.raises(UsageError, match="not object") as raised:
        quant_post_static(object(), "model.onnx", samples)  # type: ignore[arg-type]
    assert "executor=" in raised.value.hint


def test_static_quantization_with_four_bits_stores_weights_of_four_bits(workshop: Workshop) -> None:
    quant_post_static(
        "model.onnx", "static", samples, weight_bits=4, activation_bits=4, quantizable_op_type=["conv2d", "mul"]
    )
    kinds = {
        tensor.name: tensor.data_type for tensor in onnx.load("static.onnx").graph.initializer if len(tensor.dims) > 1
    }
    assert onnx.TensorProto.INT4 in kinds.values(), kinds
    with pytest.raises(ConverterError, match="bit_num"):
        quant_post_static("model.onnx", "refused", samples, weight_bits=4, save_type="MINDIR_LITE")
    assert not Path("refused.ms").exists()


def test_static_quantization_refuses_an_unknown_node_with_the_nearest(workshop: Workshop) -> None:
    with pytest.raises(ConfigError, match=r"^skip_quant_node: .*did you mean node_y"):
        quant_post_static("model.onnx", "static", samples, skip_nodes=["nod_y"])


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_dynamic_post_training_quantization_stores_weights_as_integers(workshop: Workshop, bits: int) -> None:
    quant_post_dynamic("model.onnx", "folder", save_model_filename="q", weight_bits=bits)
    kinds = {tensor.name: tensor.data_type for tensor in onnx.load("folder/q.onnx").graph.initializer}
    wanted = {4: onnx.TensorProto.INT4, 8: onnx.TensorProto.INT8, 16: onnx.TensorProto.INT16}[bits]
    assert kinds["w_conv_quantized"] == kinds["w_fc_quantized"] == wanted


@pytest.mark.parametrize(
    "options",
    [
        {"weight_bits": 17},
        {"weight_bits": 0},
        {"weight_quantize_type": "kl"},
        {"generate_test_model": True},
        {"params_filename": "p"},
    ],
)
def test_dynamic_quantization_refuses_what_it_does_not_know(workshop: Workshop, options: dict[str, Any]) -> None:
    with pytest.raises(ConverterError):
        quant_post_dynamic("model.onnx", "folder", **options)
    assert not Path("folder").exists()


def test_verbose_prints_the_summary_lines(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    quant_post_dynamic("model.onnx", "folder", verbose=True)
    assert "2 nodes quantized, 3 left" in capsys.readouterr().out


def test_the_default_operators_are_found_under_names_with_commas(workshop: Workshop) -> None:
    proto = model_proto()
    proto.graph.node[-1].name = "fc,1"
    onnx.save(proto, "model.onnx")
    result = quant_post_static("model.onnx", "static", samples, quantizable_op_type=["conv2d"])
    assert result.plans["ONNX"].nodes["fc,1"].mode.value == "float"


def test_endless_samples_end_where_the_configuration_says(workshop: Workshop) -> None:
    def endless() -> Iterator[dict[str, np.ndarray]]:
        for _ in range(100):
            yield from samples()
        raise AssertionError("more samples are read than calibrate_size says")

    converter = Converter(save_type=("ONNX",), calibration_data=endless)
    converter.set_config_info("common_quant_param", FULL_KEYS)
    converter.set_config_info("data_preprocess_param", {"calibrate_size": "4"})
    converter.convert("ONNX", "model.onnx", "few")
    whole = Converter(save_type=("ONNX",), calibration_data=samples)
    whole.set_config_info("common_quant_param", FULL_KEYS)
    whole.convert("ONNX", "model.onnx", "all")
    assert Path("few.onnx").read_bytes() == Path("all.onnx").read_bytes()


@pytest.mark.parametrize("request_", [None, "model.onnx", Path("model.onnx")])
def test_what_is_no_request_is_refused_without_pytorch(request_: Any) -> None:
    with pytest.raises(UsageError, match="must be a ConvertRequest or a module of quant_aware"):
        convert(request_)


def test_a_section_that_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match="section must be a text"):
        Converter().set_config_info(1, {})  # type: ignore[arg-type]
