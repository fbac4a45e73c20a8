"""Paddle models, float and quantized, as graph and plan."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ModelError, UsageError
from converter_lite.formats.paddle.importer.graph import to_quantized_model
from converter_lite.formats.paddle.importer.simplification import simplify
from converter_lite.formats.paddle.inference_model.files import read_combined, read_program
from converter_lite.formats.paddle.inference_model.messages import message_class
from converter_lite.formats.paddle.inference_model.reader import is_paddle_path, locate, read_paddle
from converter_lite.formats.paddle.inference_model.writer import parameter_bytes, program_bytes, tensor_bytes
from converter_lite.formats.paddle.program import Operator, Program, Variable, VarType, attr, ints
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.inference_models import (
    conv,
    fake_quantized_model,
    float_model,
    linear,
    linear_quantized_model,
    program_of,
    quantized_weight,
    random,
    save,
    trained_model,
)
from tests.mutation import mutations
from tests.support import assert_peak

Array = NDArray[Any]
CASES = int(os.environ.get("FUZZ_CASES", "1000"))
IMAGE = random(2, 3, 8, 8, seed=11)


def run(model: ir.Model, image: Array = IMAGE) -> Array:
    session = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1)
    return next(iter(session.run({"image": image}).values()))


def test_a_float_model_computes_what_its_operators_say(tmp_path: Path) -> None:
    program, parameters = float_model()
    quantized = read_paddle(save(tmp_path / "m", program, parameters))
    assert [value.name for value in quantized.model.graph.outputs] == ["out"]
    assert run(quantized.model) == pytest.approx(by_hand(parameters), abs=1e-5)
    assert quantized.plan.quantized_nodes == []


def by_hand(parameters: dict[str, Array]) -> Array:
    """The float model in NumPy, in float64."""
    p = {name: array.astype(np.float64) for name, array in parameters.items()}
    x = np.pad(IMAGE.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    a = sum(
        np.einsum("nchw,oc->nohw", x[:, :, i : i + 8, j : j + 8], p["conv.w"][:, :, i, j])
        for i in range(3)
        for j in range(3)
    )
    factor = (p["bn.scale"] / np.sqrt(p["bn.var"] + 1e-3)).reshape(1, -1, 1, 1)
    b = (a - p["bn.mean"].reshape(1, -1, 1, 1)) * factor + p["bn.bias"].reshape(1, -1, 1, 1)
    g = np.clip(b, 0, 6).mean(axis=(2, 3)) @ p["fc.w"] + p["fc.b"]
    return np.exp(g) / np.exp(g).sum(axis=1, keepdims=True)


def test_normalizations_and_identities_are_gone_after_simplification() -> None:
    program, parameters = float_model()
    kinds = [op.type for op in simplify(program, parameters)[0].main.operators]
    assert "batch_norm" not in kinds
    assert "scale" not in kinds
    assert program.main.operators[-1].inputs == {"X": ["out"]}


def test_simplification_does_not_change_the_function() -> None:
    program, parameters = float_model()
    folded = to_quantized_model(*simplify(program, parameters), target="x")
    plain = to_quantized_model(program, parameters, target="x")
    assert run(folded.model) == pytest.approx(run(plain.model), abs=1e-5)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_scale_is_an_identity_only_when_it_changes_nothing(scale: float) -> None:
    parameters = {"w": random(4, 3, 3, 3)}
    operators = [conv("image", "w", "a"), Operator("scale", {"X": ["a"]}, {"Out": ["out"]}, {"scale": attr(scale)})]
    program = program_of(operators, parameters, {"image": (2, 3, 8, 8)}, "out")
    kinds = [op.type for op in simplify(program, parameters)[0].main.operators]
    assert ("scale" in kinds) is (scale != 1.0)
    made = run(to_quantized_model(*simplify(program, parameters), target="x").model)
    assert made == pytest.approx(run(to_quantized_model(program, parameters, target="x").model), abs=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((3,), 1), ((1, 3, 1, 1), -1)])
def test_numbers_along_the_height_are_no_bias_of_channels_that_come_last(shape: tuple[int, ...], axis: int) -> None:
    parameters = {"w": random(3, 8, 3, 3), "b": random(*shape)}
    addition = Operator("elementwise_add", {"X": ["a"], "Y": ["b"]}, {"Out": ["out"]}, {"axis": attr(axis)})
    operators = [conv("image", "w", "a", data_format=attr("NHWC")), addition]
    program = program_of(operators, parameters, {"image": (2, 3, 8, 8)}, "out")
    plain, folded = (
        to_quantized_model(*made, target="x") for made in ((program.copy(), parameters), simplify(program, parameters))
    )
    assert run(folded.model) == pytest.approx(run(plain.model), abs=1e-5)


Maker = Callable[[], tuple[Program, dict[str, Array]]]


@pytest.mark.parametrize("maker", [fake_quantized_model, linear_quantized_model, trained_model])
def test_quantized_models_keep_their_scales_and_integers(maker: Maker, tmp_path: Path) -> None:
    quantized = read_paddle(save(tmp_path / "m", *maker()))
    node = next(node for node in quantized.model.graph if node.op_type == "Conv")
    assert quantized.plan.mode(node) is NodeMode.INTEGER
    assert float(quantized.plan.activations["image"].scale) == np.float32(2.5) / np.float32(127)
    weight = next(name for name in quantized.plan.weights if name.startswith("conv"))
    assert np.abs(quantized.integers(weight)).max() == 127
    assert quantized.plan.weights[weight].spec.axis == 0


@pytest.mark.parametrize("maker", [fake_quantized_model, linear_quantized_model, trained_model])
def test_the_float_graph_of_a_quantized_model_is_the_float_model_up_to_rounding(maker: Maker, tmp_path: Path) -> None:
    quantized = read_paddle(save(tmp_path / "m", *maker()))
    want = by_hand(float_model()[1])
    assert np.abs(run(quantized.model) - want).max() < 0.02


def test_a_normalization_turns_integers_of_negative_channels_and_keeps_their_magnitude(tmp_path: Path) -> None:
    program, parameters = linear_quantized_model()
    quantized = read_paddle(save(tmp_path / "m", program, parameters))
    stored = quantized.integers(next(name for name in quantized.plan.weights if name.startswith("conv")))
    signs = np.where(parameters["bn.scale"] < 0, -1, 1).reshape(-1, 1, 1, 1)
    assert np.array_equal(stored, parameters["conv.w"].astype(np.int32) * signs)


def test_both_generations_of_quantized_models_say_the_same(tmp_path: Path) -> None:
    older = read_paddle(save(tmp_path / "a", *fake_quantized_model()))
    newer = read_paddle(save(tmp_path / "b", *linear_quantized_model()))
    first, second = (weight_scales(model, "conv") for model in (older, newer))
    assert np.array_equal(first, second)


def test_a_variable_that_is_rounded_in_two_ways_keeps_both_grids(tmp_path: Path) -> None:
    """Both say how it is rounded before anything reads it."""
    integers, largest = quantized_weight(random(4, 3, 3, 3), 0)
    parameters = {"w": integers.astype(np.int8), "w.s": largest, "fine": np.array(2.5), "coarse": np.array(9.0)}
    parameters = {
        name: array if array.dtype == np.int8 else array.astype(np.float32) for name, array in parameters.items()
    }
    parameters |= {f"{scale}.zero": np.zeros(1, np.int32) for scale in ("w.s", "fine", "coarse")}
    operators = [
        linear("dequantize", "w", "w.d", "w.s", 0),
        *(linear("quantize", "image", f"{scale}.q", scale, -1) for scale in ("fine", "coarse")),
        *(linear("dequantize", f"{scale}.q", f"{scale}.d", scale, -1) for scale in ("fine", "coarse")),
        *(conv(f"{scale}.d", "w.d", f"{scale}.out") for scale in ("fine", "coarse")),
        Operator("elementwise_add", {"X": ["fine.out"], "Y": ["coarse.out"]}, {"Out": ["out"]}, {"axis": attr(-1)}),
    ]
    program = program_of(operators, parameters, {"image": (2, 3, 8, 8)}, "out")
    quantized = read_paddle(save(tmp_path / "m", program, parameters))
    read = [node.inputs[0] for node in quantized.model.graph if node.op_type == "Conv"]
    scales = [float(quantized.plan.activations[str(value.name)].scale) for value in read if value is not None]
    assert scales == pytest.approx([2.5 / 127, 9.0 / 127])


def weight_scales(quantized: QuantizedModel, prefix: str) -> Array:
    return next(params.scale for name, params in quantized.plan.weights.items() if name.startswith(prefix))


def test_a_per_tensor_weight_has_the_step_that_max_range_says(tmp_path: Path) -> None:
    quantized = read_paddle(save(tmp_path / "m", *fake_quantized_model()))
    assert float(weight_scales(quantized, "fc")) == pytest.approx(3.0 / 127, rel=1e-6)


def test_weights_that_are_no_integers_are_refused(tmp_path: Path) -> None:
    program, parameters = fake_quantized_model()
    parameters["conv.w"][0, 0, 0, 0] = 0.5
    with pytest.raises(ModelError, match=r"conv\.w should hold integers"):
        read_paddle(save(tmp_path / "m", program, parameters))


def test_parameters_may_lie_in_one_file_each(tmp_path: Path) -> None:
    program, parameters = float_model()
    (tmp_path / "__model__").write_bytes(program_bytes(program))
    for name, array in parameters.items():
        (tmp_path / name).write_bytes(tensor_bytes(array))
    assert run(read_paddle(tmp_path).model) == pytest.approx(by_hand(parameters), abs=1e-5)
    (tmp_path / "bn.mean").unlink()
    with pytest.raises(ModelError, match=r"1 of 7 parameters have no file: bn\.mean"):
        read_paddle(tmp_path)


def test_the_folder_that_quant_post_static_writes_is_read(tmp_path: Path) -> None:
    """PaddleSlim's default names: ``__model__`` with all parameters in ``__params__``."""
    program, parameters = fake_quantized_model()
    (tmp_path / "__model__").write_bytes(program_bytes(program))
    (tmp_path / "__params__").write_bytes(parameter_bytes(parameters))
    assert locate(tmp_path, None) == (tmp_path / "__model__", tmp_path / "__params__")
    assert locate(tmp_path / "__model__", None) == (tmp_path / "__model__", tmp_path / "__params__")
    assert read_paddle(tmp_path).plan.quantized_nodes


def test_files_are_found_beside_each_other_or_named(tmp_path: Path) -> None:
    folder = save(tmp_path / "m", *float_model())
    program = folder / "inference.pdmodel"
    assert locate(folder, None) == (program, folder / "inference.pdiparams")
    assert locate(program, None) == (program, folder / "inference.pdiparams")
    assert is_paddle_path(folder)
    assert is_paddle_path(program)
    assert not is_paddle_path(tmp_path)
    with pytest.raises(UsageError, match="no Paddle model"):
        locate(tmp_path, None)
    with pytest.raises(UsageError, match="parameter file"):
        locate(program, folder / "absent")
    with pytest.raises(UsageError, match="the model file or directory does not exist"):
        read_paddle(tmp_path / "absent")


def test_a_truncated_program_is_refused() -> None:
    program, parameters = float_model()
    data = program_bytes(program)
    for length in range(0, len(data) - 1, 41):
        with pytest.raises(ModelError):
            read_combined(read_program(data[:length]), parameter_bytes(parameters))


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: d[: len(d) // 2]])
def test_parameters_that_do_not_fit_are_refused(change: Callable[[bytes], bytes]) -> None:
    program, parameters = float_model()
    with pytest.raises(ModelError):
        read_combined(program, change(parameter_bytes(parameters)))


def test_parameters_of_another_model_are_refused() -> None:
    program, parameters = float_model()
    parameters["bn.mean"] = random(7)
    with pytest.raises(ModelError, match=r"bn\.mean has shape \[7\]"):
        read_combined(program, parameter_bytes(parameters))


def test_a_json_program_is_named_as_such() -> None:
    with pytest.raises(ModelError):
        read_program(b'{"base_code": {"magic": "pir"}}')


def test_an_operator_that_cannot_be_translated_is_named_with_its_output(tmp_path: Path) -> None:
    program = program_of([Operator("yolo_box", {"X": ["image"]}, {"Boxes": ["out"]})], {}, {"image": (1, 3)}, "out")
    with pytest.raises(ModelError, match=r"yolo_box -> out"):
        read_paddle(save(tmp_path / "m", program, {}))


def test_an_operator_without_an_attribute_that_it_needs_is_an_error(tmp_path: Path) -> None:
    program = program_of([Operator("clip", {"X": ["image"]}, {"Out": ["out"]})], {}, {"image": (1, 3)}, "out")
    with pytest.raises(ModelError, match="make no sense"):
        read_paddle(save(tmp_path / "m", program, {}))


@pytest.mark.parametrize(
    ("maker", "kind", "name"),
    [
        (linear_quantized_model, "dequantize_linear", "quant_axis"),
        (float_model, "batch_norm", "epsilon"),
        (fake_quantized_model, "fake_channel_wise_dequantize_max_abs", "quant_bits"),
    ],
)
def test_an_attribute_of_another_type_is_an_error(maker: Maker, kind: str, name: str, tmp_path: Path) -> None:
    program, parameters = maker()
    next(op for op in program.main.operators if op.type == kind).attributes[name] = attr("text")
    with pytest.raises(ModelError):
        read_paddle(save(tmp_path / "m", program, parameters))


def test_observers_that_point_at_each_other_do_not_hang(tmp_path: Path) -> None:
    operators = [
        Operator("moving_average_abs_max_scale", {"X": ["image"]}, {"Out": ["t"]}),
        Operator("moving_average_abs_max_scale", {"X": ["t"]}, {"Out": ["image"]}),
        Operator("relu", {"X": ["t"]}, {"Out": ["out"]}),
    ]
    program = program_of(operators, {}, {"image": (2, 3, 8, 8)}, "out")
    model = read_paddle(save(tmp_path / "m", program, {})).model
    assert [node.op_type for node in model.graph] == ["Relu"]


def test_a_name_that_is_written_twice_means_its_latest_value() -> None:
    operators = [
        Operator("relu", {"X": ["image"]}, {"Out": ["t"]}),
        Operator("sigmoid", {"X": ["t"]}, {"Out": ["u"]}),
        Operator("tanh", {"X": ["u"]}, {"Out": ["t"]}),
        Operator("elementwise_add", {"X": ["t"], "Y": ["u"]}, {"Out": ["out"]}, {"axis": attr(-1)}),
    ]
    program = program_of(operators, {}, {"image": (2, 3, 8, 8)}, "out")
    u = 1 / (1 + np.exp(-np.maximum(IMAGE, 0)))
    assert run(to_quantized_model(program, {}, target="x").model) == pytest.approx(np.tanh(u) + u, abs=1e-6)


def test_input_shapes_replace_the_declared_ones(tmp_path: Path) -> None:
    folder = save(tmp_path / "m", *float_model())
    model = read_paddle(folder, input_shapes={"image": (1, 3, 8, 8)}).model
    assert model.graph.inputs[0].shape == ir.Shape((1, 3, 8, 8))


def filled_program(shape: tuple[int, int], count: int, tmp_path: Path) -> Path:
    attributes = {"shape": ints(shape), "value": attr(1.0), "dtype": attr(5)}
    filled = [Operator("fill_constant", {}, {"Out": [f"k{i}"]}, attributes) for i in range(count)]
    used = Operator("sum", {"X": ["image", *(f"k{i}" for i in range(count))]}, {"Out": ["y"]})
    return save(tmp_path / "m", program_of([*filled, used], {}, {"image": shape}, "y"), {})


def test_many_constants_of_one_number_cannot_fill_the_memory(tmp_path: Path) -> None:
    """16,777,216 elements in all."""
    folder = filled_program((256, 256), 300, tmp_path)
    tracemalloc.start()
    with pytest.raises(ModelError, match="far more numbers than it holds"):
        read_paddle(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * (1 << 24)


@pytest.mark.parametrize(("shape", "count"), [((5000, 5000), 1), ((1000, 1000), 40)])
def test_large_constants_of_one_number_are_filled_by_the_graph(
    shape: tuple[int, int], count: int, tmp_path: Path
) -> None:
    """A mask of attention may be one of them."""
    folder = filled_program(shape, count, tmp_path)
    tracemalloc.start()
    model = read_paddle(folder).model
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22
    assert (run(model, np.zeros(shape, np.float32)) == count).all()


def test_a_long_program_takes_the_memory_of_its_nodes(tmp_path: Path) -> None:
    """Three nodes for each operator here: their two numbers are kept once, and types are forgotten."""
    attributes = {"scale": attr(2.0), "bias": attr(1.0), "bias_after_scale": attr(True)}
    names = ["x", *(f"v{i}" for i in range(1999)), "y"]
    chain = [Operator("scale", {"X": [a]}, {"Out": [b]}, attributes) for a, b in pairwise(names)]
    folder = save(tmp_path / "m", program_of(chain, {}, {"x": (2, 4)}, "y"), {})
    assert_peak(partial(read_paddle, folder), 3 * 2400 * len(chain))
    quantized = read_paddle(folder)
    assert len(quantized.model.graph.initializers) == 2
    assert len({id(decision) for decision in quantized.plan.nodes.values()}) == 3


def test_numbers_that_are_kept_once_leave_the_names_of_others(tmp_path: Path) -> None:
    chain = [
        Operator("scale", {"X": [a]}, {"Out": [b]}, {"scale": attr(factor)})
        for a, b, factor in (("x", "a", 2.0), ("a", "b", 2.0), ("b", "y", 3.0))
    ]
    folder = save(tmp_path / "m", program_of(chain, {}, {"x": (2, 4)}, "y"), {})
    assert list(read_paddle(folder).model.graph.initializers) == ["scale", "scale_2"]


HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (Operator("fc", {"Input": ["x"], "W": ["w"]}, {"Out": ["y"]}, {"in_num_col_dims": attr(HUGE)}), "dimensions"),
        (Operator("mul", {"X": ["x"], "Y": ["w"]}, {"Out": ["y"]}, {"x_num_col_dims": attr(HUGE)}), "dimensions"),
        (Operator("group_norm", {"X": ["x"]}, {"Y": ["y"]}, {"groups": attr(HUGE)}), f"in {HUGE} groups"),
        (Operator("group_norm", {"X": ["wide"]}, {"Y": ["y"]}, {"groups": attr(1)}), "far more numbers than it holds"),
    ],
)
def test_numbers_in_attributes_and_shapes_cannot_fill_the_memory(operator: Operator, message: str) -> None:
    program = program_of([operator], {"w": random(8, 4)}, {"x": (2, 8, 8, 8), "wide": (1, HUGE, 8, 8)}, "y")
    tracemalloc.start()
    with pytest.raises(ModelError, match=message):
        to_quantized_model(program, {"w": random(8, 4)}, target="x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("part", ["inference.pdmodel", "inference.pdiparams"])
@pytest.mark.parametrize("maker", [float_model, fake_quantized_model, linear_quantized_model])
def test_a_mutated_model_is_read_or_refused_with_a_model_error(maker: Maker, part: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "m", *maker())
    refused = 0
    for data in mutations((folder / part).read_bytes(), CASES // 3, seed=5):
        (folder / part).write_bytes(data)
        try:
            read_paddle(folder)
        except ModelError:
            refused += 1
    assert refused > CASES // 10


def test_the_element_types_of_files_are_those_of_the_enum() -> None:
    assert (VarType.BOOL, VarType.FP32, VarType.INT8) == (0, 5, 21)


# -- what Paddle's later releases write -------------------------------------------------------------------------------


def with_scalars(program: Program, name: str, values: list[tuple[int, str, bool | int | float]]) -> bytes:
    """A program whose first real operator has an attribute of numbers with types of their own."""
    message = message_class("Program")()
    message.ParseFromString(program_bytes(program))
    operator = next(op for op in message.blocks[0].ops if op.type not in (b"feed", b"fetch"))
    attribute = operator.attrs.add(name=name.encode(), type=17)
    for kind, field, value in values:
        setattr(attribute.scalars.add(type=kind), field, value)
    return bytes(message.SerializeToString())


def test_numbers_with_types_of_their_own_are_read() -> None:
    """Paddle 2.5 and newer write the values of assign_value and set_value so."""
    operator = Operator("assign_value", {}, {"Out": ["k"]}, {"shape": ints((3,)), "dtype": attr(5)})
    used = Operator("elementwise_add", {"X": ["image"], "Y": ["k"]}, {"Out": ["out"]}, {"axis": attr(-1)})
    program = program_of([operator, used], {}, {"image": (2, 3)}, "out")
    read = read_program(with_scalars(program, "values", [(1, "b", True), (2, "i", -7), (3, "r", 0.5)]))
    found = next(op for op in read.main.operators if op.type == "assign_value")
    assert found.get("values") == (True, -7, 0.5)
    model = to_quantized_model(read, {}, target="x").model
    assert run(model, np.zeros((2, 3), np.float32)).tolist() == [[1, -7, 0.5]] * 2
    with pytest.raises(ModelError, match="a number has unknown type 4"):
        read_program(with_scalars(program, "values", [(4, "r", 0.5)]))


@pytest.mark.parametrize(("version", "shape"), [(0, (1,)), (2_004_002, (1,)), (2_005_000, ()), (2_006_002, ())])
def test_tensors_without_dimensions_came_with_release_2_5(version: int, shape: tuple[int, ...]) -> None:
    for operator in (
        Operator("reduce_max", {"X": ["image"]}, {"Out": ["out"]}, {"reduce_all": attr(True), "keep_dim": attr(False)}),
        Operator(
            "slice",
            {"Input": ["image"]},
            {"Out": ["out"]},
            {
                key: ints(v)
                for key, v in (("axes", (0, 1)), ("starts", (0, 1)), ("ends", (1, 2)), ("decrease_axis", (0, 1)))
            },
        ),
    ):
        program = program_of([operator], {}, {"image": (2, 3)}, "out")
        program.version = version
        model = to_quantized_model(program, {}, target="x").model
        assert run(model, np.ones((2, 3), np.float32)).shape == shape


@pytest.mark.parametrize("kind", ["", "downgrade_in_infer", "upscale_in_train"])
def test_dropout_scales_now_unless_it_did_so_in_training(kind: str) -> None:
    attributes = {"dropout_prob": attr(0.25), **({"dropout_implementation": attr(kind)} if kind else {})}
    program = program_of(
        [Operator("dropout", {"X": ["image"]}, {"Out": ["out"]}, attributes)], {}, {"image": (2, 3)}, "out"
    )
    image = np.ones((2, 3), np.float32)
    made = run(to_quantized_model(*simplify(program, {}), target="x").model, image)
    assert np.array_equal(made, image if kind == "upscale_in_train" else image * np.float32(0.75))


def test_a_constant_has_all_digits_of_its_text() -> None:
    attributes = {"shape": ints((1,)), "dtype": attr(3), "value": attr(2147483648.0), "str_value": attr("2147483647")}
    operators = [
        Operator("fill_constant", {}, {"Out": ["k"]}, attributes),
        Operator("cast", {"X": ["image"]}, {"Out": ["i"]}, {"out_dtype": attr(3)}),
        Operator("elementwise_max", {"X": ["i"], "Y": ["k"]}, {"Out": ["out"]}, {"axis": attr(-1)}),
    ]
    program = program_of(operators, {}, {"image": (1,)}, "out")
    assert run(to_quantized_model(program, {}, target="x").model, np.zeros(1, np.float32)).tolist() == [2147483647]


def test_a_weight_keeps_the_scale_that_training_gave_it(tmp_path: Path) -> None:
    """Paddle's own training observes weights like activations: the scale need not be the largest value."""
    program, parameters = trained_model()
    parameters["conv.w@scale"] = np.array([1.5], np.float32)
    op = next(op for op in program.main.operators if op.type.startswith("fake_channel_wise"))
    op.type, op.inputs["InScale"] = "fake_quantize_dequantize_moving_average_abs_max", ["conv.w@scale"]
    variables = program.main.variables
    variables.append(Variable("conv.w@scale", dims=(1,), persistable=True))
    quantized = read_paddle(save(tmp_path / "m", program, parameters))
    weight = next(name for name in quantized.plan.weights if name.startswith("conv"))
    turned = np.where(parameters["bn.scale"] < 0, -1, 1).reshape(-1, 1, 1, 1)
    wanted = np.clip(np.floor(np.abs(parameters["conv.w"]) / 1.5 * 127 + 0.5), 0, 127) * np.sign(parameters["conv.w"])
    assert np.array_equal(quantized.integers(weight), wanted * turned)
