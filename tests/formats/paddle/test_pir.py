"""Programs of Paddle 3: read like the older ones, or refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ModelError, UsageError
from converter_lite.formats.paddle.inference_model.reader import is_paddle_path, locate, read_paddle
from converter_lite.formats.paddle.pir.document import read_operations
from converter_lite.formats.paddle.pir.scanner import is_pir
from converter_lite.formats.paddle.pir.translation import read_pir
from converter_lite.formats.paddle.program import Program
from converter_lite.quantization.plan import NodeMode
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.graphs import signature
from tests.formats.paddle.inference_models import (
    fake_quantized_model,
    float_model,
    linear_quantized_model,
    random,
    save,
    trained_model,
)
from tests.formats.paddle.pir_models import PirProgram, Sizes, every_element_type, pir_twin, tensor_type

Array = NDArray[Any]
Maker = Callable[[], tuple[Program, dict[str, Array]]]
MAKERS = (float_model, fake_quantized_model, linear_quantized_model, trained_model)


def small() -> PirProgram:
    """relu(x) + w."""
    made = PirProgram()
    weight = made.parameter("w", random(4))
    made.output(made.op("add", made.op("relu", made.input("x", (2, 4))), weight))
    return made


def read(made: PirProgram, folder: Path) -> ir.Model:
    return read_paddle(made.save(folder / "m")).model


def run(model: ir.Model, **feed: Array) -> list[Array]:
    found = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1).run(feed)
    return [found[str(value.name)] for value in model.graph.outputs]


# -- the same graph as from older files -------------------------------------------------------------------------------


@pytest.mark.parametrize("maker", MAKERS)
def test_a_program_gives_the_graph_and_the_plan_of_its_older_twin(maker: Maker, tmp_path: Path) -> None:
    program, parameters = maker()
    older = read_paddle(save(tmp_path / "older", program, parameters))
    newer = read_paddle(pir_twin(program, parameters).save(tmp_path / "newer"))
    assert signature(newer.model) == signature(older.model)
    assert [value.name for value in newer.model.graph.outputs] == ["out"]
    assert [node.mode for node in newer.plan.nodes.values()] == [node.mode for node in older.plan.nodes.values()]
    assert (maker is float_model) == (NodeMode.INTEGER not in [node.mode for node in newer.plan.nodes.values()])
    for ours, theirs in ((newer.plan.weights, older.plan.weights), (newer.plan.activations, older.plan.activations)):
        assert [params.scale.tolist() for params in ours.values()] == [
            params.scale.tolist() for params in theirs.values()
        ]
    assert list(newer.q_weights) == list(older.q_weights)
    assert all(np.array_equal(newer.integers(name), older.integers(name)) for name in older.q_weights)


def test_inputs_outputs_and_weights_keep_their_names_and_nodes_are_called_after_operations(tmp_path: Path) -> None:
    model = read(small(), tmp_path)
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert [value.name for value in model.graph.outputs] == ["fetch_name_0"]
    assert list(model.graph.initializers) == ["w"]
    assert [node.outputs[0].name for node in model.graph] == ["relu_3", "fetch_name_0"]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_all_released_versions_of_programs_are_read(version: int, tmp_path: Path) -> None:
    made = small()
    made.version = version
    assert [node.op_type for node in read(made, tmp_path).graph] == ["Relu", "Add"]


def test_a_newer_version_is_refused_with_a_remedy() -> None:
    made = small()
    made.version = 5
    with pytest.raises(ModelError, match=r"version 5; versions up to 4") as caught:
        read_pir(made.json())
    assert "older Paddle" in caught.value.hint


@pytest.mark.parametrize("options", [{"indent": 4}, {"separators": (",", ":")}, {"sort_keys": True}])
def test_the_form_of_the_text_makes_no_difference(options: dict[str, Any]) -> None:
    assert read_pir(small().json(**options)) == read_pir(small().json())
    assert read_pir(b"\xef\xbb\xbf" + small().json()) == read_pir(small().json())


@pytest.mark.parametrize("ascii_only", [True, False])
def test_names_are_read_as_utf_8_and_as_escapes(ascii_only: bool) -> None:
    made = PirProgram()
    made.output(made.op("relu", made.input("Bild 图像", (1,))), "größe 🙂")
    data = json.dumps(made.document(), ensure_ascii=ascii_only).encode()
    variables = [variable.name for variable in read_pir(data).main.variables]
    assert variables == ["Bild 图像", "größe 🙂"]


def test_a_program_is_known_by_its_first_character(tmp_path: Path) -> None:
    assert is_pir(small().json())
    assert not is_pir(b"\n{\x08")  # a block of 123 bytes in an older file
    folder = small().save(tmp_path / "m")
    (folder / "inference.json").rename(folder / "model")
    assert len(read_paddle(folder / "model", folder / "inference.pdiparams").model.graph) == 2


def test_files_are_found_by_their_names(tmp_path: Path) -> None:
    folder = small().save(tmp_path / "m")
    program, parameters = folder / "inference.json", folder / "inference.pdiparams"
    assert locate(folder, None) == locate(program, None) == (program, parameters)
    assert is_paddle_path(folder) and is_paddle_path(program)
    for path in (program, parameters):
        path.rename(path.with_name(f"net{path.suffix}"))
    assert locate(folder / "net.json", None) == (folder / "net.json", folder / "net.pdiparams")


def test_the_only_program_of_a_folder_may_have_any_name(tmp_path: Path) -> None:
    for name in ("net.json", "config.json", "net.pdiparams"):
        (tmp_path / name).write_bytes(b"")
    assert locate(tmp_path, None) == (tmp_path / "net.json", tmp_path / "net.pdiparams")
    (tmp_path / "net.pdmodel").write_bytes(b"")
    assert locate(tmp_path, None) == (tmp_path / "net.pdmodel", tmp_path / "net.pdiparams")
    assert is_paddle_path(tmp_path)
    (tmp_path / "config.pdiparams").write_bytes(b"")
    with pytest.raises(UsageError, match=r"2 Paddle models in this directory: config, net\n") as caught:
        locate(tmp_path, None)
    assert "--model_file" in caught.value.hint
    assert not is_paddle_path(tmp_path)


# -- values -----------------------------------------------------------------------------------------------------------


def test_a_value_may_be_several_outputs_an_input_or_a_parameter(tmp_path: Path) -> None:
    made = PirProgram()
    x, w = made.input("x", (4,)), made.parameter("w", random(4))
    y = made.op("relu", x)
    for value in (y, y, x, w):
        made.output(value)
    feed = random(4, seed=1)
    found = run(read(made, tmp_path), x=feed)
    for array, want in zip(found, (np.maximum(feed, 0), np.maximum(feed, 0), feed, random(4)), strict=True):
        assert np.array_equal(array, want)


def test_an_output_that_is_called_like_an_input_gets_another_name(tmp_path: Path) -> None:
    made = PirProgram()
    x = made.input("x", (4,))
    made.output(made.op("relu", x), "x")
    assert [value.name for value in read(made, tmp_path).graph.outputs] == ["x.1"]


def test_outputs_may_be_marked_as_in_programs_that_were_not_saved(tmp_path: Path) -> None:
    made = PirProgram()
    (image,) = made.add("1.feed", [], [tensor_type("float32", (2, 4))], name="image", col=0)
    made.add("0.shadow_output", [made.op("relu", image)], [], output_name="out")
    model = read(made, tmp_path)
    assert [value.name for value in (*model.graph.inputs, *model.graph.outputs)] == ["image", "out"]


def test_outputs_of_a_list_keep_their_names(tmp_path: Path) -> None:
    made = PirProgram()
    parts = made.listed("split_with_num", made.input("x", (2, 4)), made.full(1, "int32"), count=2, num=2)
    for part, name in zip(parts, ("left", "right"), strict=True):
        made.output(part, name)
    feed = random(2, 4)
    model = read(made, tmp_path)
    assert [value.name for value in model.graph.outputs] == ["left", "right"]
    assert np.array_equal(np.concatenate(run(model, x=feed), axis=1), feed)


def test_one_tensor_of_a_list_can_be_picked(tmp_path: Path) -> None:
    made = PirProgram()
    listed = made.combine(made.op("relu", made.input("x", (2,))), made.parameter("w", random(2)))
    (picked,) = made.add("0.slice", [listed], [tensor_type()], index=0)
    made.output(picked)
    assert run(read(made, tmp_path), x=np.array([-1, 2], np.float32))[0].tolist() == [0, 2]


def test_parameters_that_are_not_kept_have_no_value_in_the_file(tmp_path: Path) -> None:
    made = small()
    made.parameter("state__non_persistable", random(3), kept=False)
    made.parameter("other", random(3), kept=False)
    assert len(read(made, tmp_path).graph) == 2
    for operation in made.operations:
        operation.pop("OA")  # files that cannot be trained further do not say which are kept
    made.operations.pop()
    assert len(read(made, tmp_path).graph) == 2


@pytest.mark.parametrize(("dtype", "number"), every_element_type().items())
def test_element_types_are_those_of_older_files(dtype: str, number: int) -> None:
    made = PirProgram()
    made.output(made.op("assign", made.input("x", (2,), dtype)))
    assert read_pir(made.json()).main.variables[0].dtype == number


def test_an_input_of_a_type_that_is_not_read_is_refused() -> None:
    made = PirProgram()
    made.output(made.op("relu", made.input("x", (2,), "t_bf16")))
    with pytest.raises(ModelError, match=r"operation 0 \(pd_op.data\): the input x has element type t_bf16"):
        read_pir(made.json())


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_numbers_that_json_lacks_are_read(number: float, tmp_path: Path) -> None:
    made = PirProgram()
    x = made.input("x", (2,))
    made.output(made.op("add", x, made.full(number, shape=(2,))))
    assert np.array_equal(run(read(made, tmp_path), x=np.zeros(2, np.float32))[0], [number] * 2, equal_nan=True)


def test_an_attribute_without_a_number_is_refused_with_a_remedy() -> None:
    """Releases before 3.2 wrote infinity so."""
    made = PirProgram()
    made.output(made.op("leaky_relu", made.input("x", (2,)), negative_slope=None))
    with pytest.raises(ModelError, match="negative_slope is a number that JSON lacks") as caught:
        read_pir(made.json())
    assert "3.2" in caught.value.hint


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("1.if", r"operator 0 \(pd_op.if -> fetch_name_0\): control flow depends on numbers"),
        ("1.while", r"operator 0 \(pd_op.while -> fetch_name_0\): control flow depends on numbers"),
        ("2.tuple_push", r"\(cf.tuple_push -> fetch_name_0\): this operator cannot be translated"),
        ("3.my_op", r"\(custom_op.my_op -> fetch_name_0\): this operator cannot be translated"),
        ("1.viterbi_decode", r"\(pd_op.viterbi_decode -> fetch_name_0\): this operator cannot be translated"),
        ("onednn_op.conv2d", r"\(onednn_op.conv2d -> fetch_name_0\): this operator cannot be translated"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(kind: str, reason: str, tmp_path: Path) -> None:
    made = PirProgram()
    (value,) = made.add(kind, [made.input("x", (2,))], [tensor_type()])
    if kind in ("1.if", "1.while"):
        made.operations[-1]["regions"] = [{"#": "region_1", "blocks": [{"#": "block_1", "args": [], "ops": []}]}]
    made.output(value)
    with pytest.raises(ModelError, match=reason):
        read(made, tmp_path)


def test_all_operators_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    made = PirProgram()
    x = made.op("cholesky", made.input("x", (2, 2)))
    made.output(made.op("erfinv", made.op("bincount", made.op("erfinv", x))))
    with pytest.raises(
        ModelError, match=r"operator 0 \(pd_op.cholesky .*cannot be translated; nor can pd_op.bincount, pd_op.erfinv"
    ):
        read(made, tmp_path)


def test_what_has_no_effect_on_outputs_is_left_out(tmp_path: Path) -> None:
    made = small()
    made.add("0.set_parameter", [3], [], parameter_name="w")
    made.add("1.assert", [3, 3], [], summarize=1)
    assert [node.op_type for node in read(made, tmp_path).graph] == ["Relu", "Add"]


def without(key: str) -> Callable[[PirProgram], None]:
    def change(made: PirProgram) -> None:
        for operation in made.operations:
            operation.pop(key, None)

    return change


def renumber(made: PirProgram) -> None:
    made.operations[2]["I"][0]["%"] = 77


def same_names(made: PirProgram) -> None:
    made.operations[1]["A"][0]["AT"]["D"] = "w"


def no_input(made: PirProgram) -> None:
    made.operations = [op for op in made.operations if op["#"] != "1.data"]


def no_output(made: PirProgram) -> None:
    made.operations.pop()


def too_many_operands(made: PirProgram) -> None:
    made.operations[2]["I"] *= 2


def bad_operand(made: PirProgram) -> None:
    made.operations[2]["I"] = [{"%": "1"}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (renumber, r"operation 2 \(pd_op.relu\): it reads value 77, which nothing before it makes"),
        (same_names, "two inputs or parameters are called w"),
        (no_input, "the program has no input; it is not an inference model"),
        (no_output, "the program has no output; it is not an inference model"),
        (too_many_operands, r"\(pd_op.relu\): it has more than 1 operands"),
        (bad_operand, "damaged: the number of a value is none"),
        (without("#"), "damaged: an operation has no name"),
        (without("O"), "damaged"),
    ],
)
def test_a_program_that_contradicts_itself_is_refused(change: Callable[[PirProgram], None], message: str) -> None:
    made = small()
    change(made)
    with pytest.raises(ModelError, match=message):
        read_pir(made.json(), where="m.json")


def test_an_operand_that_must_be_a_constant_is_refused_otherwise() -> None:
    made = PirProgram()
    x = made.input("x", (2, 4))
    made.output(made.op("argmax", x, made.op("shape64", x), keepdims=False, flatten=False))
    with pytest.raises(ModelError, match=r"\(pd_op.argmax\): its axis is computed at run time") as caught:
        read_pir(made.json())
    assert caught.value.hint == "it has to be a constant of the model"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a Paddle program"),
        (b"{}", "it has no version, or no program"),
        (b'{"base_code":{"magic":"onnx","version":1},"program":{}}', "does not name PIR"),
        (b'{"base_code":{"magic":"pir","version":true},"program":{}}', "does not name PIR"),
        (small().json() + b"x", "text behind the program"),
        (small().json().replace(b'"magic": "pir"', b'"magic": NaN'), "NaN is not JSON"),
        (small().json().replace(b'"regions": [', b'"regions": [{"blocks": []}, '), "several regions"),
    ],
)
def test_other_texts_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_pir(data, where="m.json")


def test_every_truncation_is_refused() -> None:
    data = pir_twin(*linear_quantized_model()).json()
    for length in range(0, len(data) - 1, 211):
        with pytest.raises(ModelError):
            read_pir(data[:length])


def test_constants_may_stand_in_lists_and_shapes_may_be_computed(tmp_path: Path) -> None:
    """``x.reshape([x.shape[0], -1, 5])`` with an open size."""
    made = PirProgram()
    x = made.input("x", (-1, 10))
    batch = made.op("slice", made.op("shape64", x), made.ints(0), made.ints(1), axes=[0], decrease_axis=[0])
    sizes = made.combine(batch, made.full(-1, "int64", ()), made.full(5, "int64", ()))
    made.output(made.op("reshape", x, made.op("stack", sizes, axis=0)))
    feed = random(3, 10)
    assert np.array_equal(run(read(made, tmp_path), x=feed)[0], feed.reshape(3, -1, 5))


def test_long_constants_are_read(tmp_path: Path) -> None:
    numbers = random(300, 40)
    made = PirProgram()
    made.output(made.op("add", made.input("x", (40,)), made.constant(numbers)))
    feed = random(40, seed=2)
    assert np.array_equal(run(read(made, tmp_path), x=feed)[0], feed + numbers)


def test_the_shape_of_a_parameter_has_to_fit_its_values(tmp_path: Path) -> None:
    made = small()
    made.parameters["w"] = random(5)
    with pytest.raises(ModelError, match=r"parameter w has shape \[5\], the program says \[4\]"):
        read(made, tmp_path)


def test_operations_are_what_the_file_says() -> None:
    made = PirProgram()
    x = made.input("x", (2, -1))
    made.listed("unbind", x, count=2, axis=0)
    data, unbind, split = read_operations(made.json())
    assert (data.kind, data.attributes["shape"], data.results[0].tensors[0].dims) == ("pd_op.data", (2, -1), (2, -1))
    assert (unbind.operands, unbind.attributes, unbind.results[0].is_list) == ((1,), {"axis": 0}, True)
    assert (split.kind, split.operands, [result.number for result in split.results]) == ("builtin.split", (2,), [3, 4])
    assert isinstance(Sizes((1, 2)), tuple)
