"""What cannot be translated is named, with the reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from converter_lite.errors import ConverterError, FormatError, ModelError
from converter_lite.formats.tflite.enums import TensorType
from tests.formats.tflite.case import Variable, i32, normal, scalar, single
from tests.formats.tflite.cases_detection import DETECTION, options
from tests.formats.tflite.cases_matrices import TANH, layer, weights
from tests.formats.tflite.cases_pictures import TRANSPOSED
from tests.formats.tflite.files import File, quant
from tests.formats.tflite.running import read
from tests.formats.tflite.test_structure import called, loop

INT8, INT32, BOOL = TensorType.INT8, TensorType.INT32, TensorType.BOOL
STEPS = {"stride_h": 1, "stride_w": 1}


def refused(file: File | bytes, kind: type[ConverterError] = ModelError) -> str:
    """What the refusal says."""
    with pytest.raises(kind) as caught:
        read(file)
    return str(caught.value)


def one(kind: str, *, shape: tuple[int, ...] = (1, 4), inputs: int = 1, **options: object) -> File:
    file = File()
    main = file.main
    given = [main.input(shape, name=f"x{n}") for n in range(inputs)]
    main.ends_with(*main.op(kind, given, [main.tensor(shape, name="y")], **options))
    return file


def test_all_operators_without_a_counterpart_are_named_at_once() -> None:
    file = File()
    main = file.main
    x = main.input((2, 3), name="x")
    (a,) = main.op("SVDF", [x], [main.tensor((2, 3), name="memory")])
    (b,) = main.op("CUSTOM", [a], [main.tensor((2, 3), name="boxes")], custom_code="Own")
    main.ends_with(*main.op("LSH_PROJECTION", [b], [main.tensor((2, 3), name="hash")]))
    message = refused(file)
    assert "SVDF (memory)" in message
    assert "custom operator Own (boxes)" in message
    assert "LSH_PROJECTION (hash)" in message
    assert "keeps a state between runs" in message


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: one("ADD", inputs=2, activation=TANH), "fused activation TANH"),
        (lambda: one("CONCATENATION", inputs=2, activation=1), "fused activation"),
        (lambda: one("RESIZE_BILINEAR", shape=(1, 4, 4, 1), align_corners=True, half_pixel_centers=True), "exclude"),
        (lambda: one("FAKE_QUANT", num_bits=1, min=0.0, max=1.0), "1 bits from 0.0 to 1.0"),
        (lambda: one("DEPTH_TO_SPACE", shape=(1, 2, 2, 4), block_size=0), "blocks of 0"),
        (lambda: one("AVERAGE_POOL_2D", shape=(1, 4, 4, 1), filter_h=0, filter_w=2, **STEPS), "its filter is [0, 2]"),
        (lambda: one("FULLY_CONNECTED", inputs=2, weights_format=1), "shuffled"),
        (lambda: one("LSTM", inputs=5, kernel_type=0), "keeps a state between runs"),
        (lambda: one("CONV_2D", shape=(1, 4, 4, 1), inputs=2, padding=7, **STEPS), "padding 7 is unknown"),
    ],
)
def test_options_without_a_counterpart_are_named_with_their_operator(make: Callable[[], File], words: str) -> None:
    message = refused(make())
    assert words in message
    assert message.startswith("model.tflite operator 0 (")
    assert "-> y" in message


def test_a_graph_that_keeps_a_state_is_refused() -> None:
    file = File()
    main = file.main
    state = main.tensor((1, 4), name="state", variable=True)
    main.ends_with(*main.op("ADD", [main.input((1, 4)), state], [main.tensor((1, 4))]))
    assert "state keeps a state between runs" in refused(file)


def test_several_signatures_with_graphs_of_their_own_are_refused() -> None:
    file = one("EXP")
    called(file, "other", 2.0)
    file.signature("encode", 0)
    file.signature("decode", 1)
    assert "2 graphs to choose from (encode, decode)" in refused(file)


def test_a_signature_of_the_first_graph_is_no_obstacle() -> None:
    file = one("EXP")
    file.signature("serving_default", 0)
    assert len(read(file).model.graph) == 1


def test_a_signature_of_another_graph_is_refused() -> None:
    file = one("EXP")
    called(file, "other", 2.0)
    file.signature("decode", 1)
    assert "names another graph" in refused(file)


def test_a_loop_whose_end_only_a_run_will_tell_is_refused() -> None:
    assert "the number of its turns is computed" in refused(loop(None))


def test_a_loop_without_end_is_refused() -> None:
    assert "more than 512 turns" in refused(loop(10**6))


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_graph_that_calls_itself_or_none_is_refused(number: int) -> None:
    file = File()
    main, inner = file.main, file.graph("inner")
    x = inner.input((2, 3))
    inner.ends_with(*inner.op("CALL", [x], [inner.tensor((2, 3))], subgraph=number))
    main.ends_with(*main.op("CALL", [main.input((2, 3))], [main.tensor((2, 3))], subgraph=1))
    message = refused(file)
    assert "calls itself" in message or "there is no graph 7" in message


def test_graphs_that_multiply_by_calling_each_other_are_refused() -> None:
    file = File()
    graphs = [file.main, *(file.graph(f"g{n}") for n in range(1, 25))]
    for number, graph in enumerate(graphs):
        x = graph.input((2, 3))
        if number + 1 < len(graphs):
            for _ in range(2):
                (x,) = graph.op("CALL", [x], [graph.tensor((2, 3))], subgraph=number + 1)
        graph.ends_with(x if number + 1 < len(graphs) else graph.op("EXP", [x], [graph.tensor((2, 3))])[0])
    assert "more than 12000 operators" in refused(file)


def test_a_branch_with_integers_needs_a_condition_that_is_known() -> None:
    file = File()
    main = file.main
    for name in ("then", "else"):
        inner = file.graph(name)
        inner.ends_with(inner.input((2, 3), INT8, quant=quant(0.1)))
    y = main.tensor((2, 3), INT8, quant=quant(0.1), name="y")
    inputs = [main.input((), BOOL), main.input((2, 3), INT8, quant=quant(0.1))]
    main.ends_with(*main.op("IF", inputs, [y], then_subgraph_index=1, else_subgraph_index=2))
    assert "a branch computes with integers" in refused(file)


def test_a_layer_that_is_too_long_to_be_written_step_by_step_is_refused() -> None:
    operands = [normal(1, 600, 3), *layer(weights(4, 3)), Variable((1, 4)), Variable((1, 4))]
    expected = np.zeros((1, 600, 4), np.float32)
    case = single("", "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, expected, activation=TANH, cell_clip=0.5)
    assert "more than 12000 operators" in refused(case.data)


def test_a_layer_of_an_open_number_of_steps_needs_one_that_onnx_has() -> None:
    file = File()
    main = file.main
    x = main.input((1, 5, 3), name="x", open_shape=(1, -1, 3))
    operands = [-1 if array is None else main.constant(array) for array in layer(weights(4, 3))]  # type: ignore[arg-type]
    states = [main.tensor((1, 4), variable=True) for _ in range(2)]
    y = main.tensor((1, 5, 4), open_shape=(1, -1, 4))
    options = {"activation": TANH, "cell_clip": 10.0}
    main.ends_with(*main.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *operands, *states], [y], **options))
    assert "an open number of steps" in refused(file)


@pytest.mark.parametrize("kind", [TensorType.STRING, TensorType.COMPLEX128, TensorType.RESOURCE])
def test_elements_that_are_no_numbers_are_refused(kind: TensorType) -> None:
    file = File()
    main = file.main
    main.ends_with(*main.op("ABS", [main.input((2,), kind, name="text")], [main.tensor((2,), kind)]))
    assert f"text has elements of type {kind.name}" in refused(file)


def test_complex_numbers_at_the_interface_are_refused() -> None:
    file = File()
    main = file.main
    main.ends_with(*main.op("REAL", [main.input((2,), TensorType.COMPLEX64, name="wave")], [main.tensor((2,))]))
    assert "wave: complex numbers are read only between operators" in refused(file)
    file = File()
    main = file.main
    lengths = main.constant(np.array([1, 4], np.int32))
    main.ends_with(*main.op("RFFT2D", [main.input((1, 4)), lengths], [main.tensor((1, 3), TensorType.COMPLEX64)]))
    assert "complex numbers are read only between operators" in refused(file)


@pytest.mark.parametrize("kind", ["MUL", "ADD", "TRANSPOSE", "RFFT2D"])
def test_what_is_done_with_complex_numbers_and_not_read_is_named(kind: str) -> None:
    file = File()
    main = file.main
    lengths = main.constant(np.array([1, 4], np.int32))
    (made,) = main.op("RFFT2D", [main.input((1, 4)), lengths], [main.tensor((1, 3), TensorType.COMPLEX64)])
    other = {"MUL": made, "ADD": main.input((1, 3)), "TRANSPOSE": lengths, "RFFT2D": lengths}[kind]
    (next_one,) = main.op(kind, [made, other], [main.tensor((1, 3), TensorType.COMPLEX64)])
    main.ends_with(*main.op("REAL", [next_one], [main.tensor((1, 3))]))
    assert f"{kind} of complex numbers is not read" in refused(file)


def test_forms_of_quantization_with_other_numbers_are_refused() -> None:
    file = File()
    main = file.main
    details = {**quant(0.1), "details": ("BlockwiseQuantization", {})}
    w = main.constant(np.ones((4, 4), np.int8), quant=details, name="w")
    main.ends_with(*main.op("FULLY_CONNECTED", [main.input((1, 4)), w, -1], [main.tensor((1, 4))]))
    assert "BlockwiseQuantization is not read" in refused(file)


def test_an_activation_with_scales_for_its_channels_is_refused() -> None:
    file = File()
    main = file.main
    x = main.input((1, 4), INT8, quant=quant([0.1, 0.2, 0.3, 0.4], axis=1), name="x")
    main.ends_with(*main.op("EXP", [x], [main.tensor((1, 4), INT8, quant=quant(0.1))]))
    assert "only one scale and zero point for the whole of an activation" in refused(file)


def test_integers_without_a_scale_cannot_become_real_numbers() -> None:
    file = File()
    main = file.main
    main.ends_with(*main.op("DEQUANTIZE", [main.input((1, 4), INT8)], [main.tensor((1, 4), name="y")]))
    assert "its integers have no scale" in refused(file)


def test_an_axis_that_is_computed_is_refused() -> None:
    file = File()
    main = file.main
    axis = main.input((), INT32, name="axis")
    main.ends_with(*main.op("ARG_MAX", [main.input((2, 3)), axis], [main.tensor((2,), INT32)], output_type=2))
    assert "axis is computed" in refused(file)


def test_a_result_of_no_elements_is_refused() -> None:
    file = File()
    main = file.main
    shape = main.constant(i32(0, 4))
    main.ends_with(*main.op("RESHAPE", [main.input((2, 2)), shape], [main.tensor((0, 4))]))
    assert "no elements" in refused(file)


def test_suppression_that_lowers_scores_is_refused() -> None:
    numbers = [scalar(3), np.array(0.5, np.float32), np.array(0.1, np.float32), np.array(0.5, np.float32)]
    results = [i32(0, 0, 0), np.zeros(3, np.float32), scalar(0)]
    case = single("", "NON_MAX_SUPPRESSION_V5", [normal(5, 4), normal(5), *numbers], results)
    assert "soft_nms_sigma" in refused(case.data)


# -- what is no sound file --------------------------------------------------------------------------------------------


def test_other_files_are_refused() -> None:
    assert "this is not a TensorFlow Lite file" in refused(b"\x08\x07" * 40, FormatError)
    assert "this is not a TensorFlow Lite file" in refused(b"", FormatError)


def test_an_older_schema_is_refused() -> None:
    file = one("EXP")
    content = {**file.content(), "version": 2}
    file.content = lambda: content  # type: ignore[method-assign]
    assert "schema version 2" in refused(file, FormatError)


def test_an_operator_that_is_newer_than_this_reader_is_named_by_its_number() -> None:
    file = one("EXP")
    file.codes[0]["builtin_code"] = 400
    assert "operator number 400" in refused(file)


def test_a_tensor_that_nothing_makes_is_refused() -> None:
    file = File()
    main = file.main
    main.ends_with(*main.op("EXP", [main.tensor((1, 4), name="lost")], [main.tensor((1, 4))]))
    assert "lost is used before it is made" in refused(file, FormatError)


def test_a_tensor_that_is_made_twice_is_refused() -> None:
    file = File()
    main = file.main
    x, y = main.input((1, 4)), main.tensor((1, 4), name="y")
    main.op("EXP", [x], [y])
    main.ends_with(*main.op("ABS", [x], [y]))
    assert "y is made twice" in refused(file, FormatError)


def test_an_output_that_nothing_makes_is_refused() -> None:
    file = one("EXP")
    file.main.ends_with(file.main.tensor((1, 4), name="lost"))
    assert "lost is used before it is made" in refused(file, FormatError)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("inputs", [9], "one of its inputs is a tensor that does not exist"),
        ("outputs", [-2], "one of its outputs is a tensor that does not exist"),
        ("opcode_index", 3, "operator code 3 does not exist"),
    ],
)
def test_numbers_of_things_that_do_not_exist_are_refused(place: str, value: object, words: str) -> None:
    file = one("EXP")
    file.main.operators[0][place] = value
    assert words in refused(file, FormatError)


def test_a_buffer_that_does_not_exist_is_refused() -> None:
    file = one("EXP")
    file.main.tensors[0]["buffer"] = 5
    assert "buffer 5 does not exist" in refused(file, FormatError)


def detector(custom_options: bytes) -> File:
    file = File()
    main = file.main
    inputs = [main.input((1, 12, 4)), main.input((1, 12, 3)), main.constant(normal(12, 4))]
    shapes: tuple[tuple[int, ...], ...] = ((1, 6, 4), (1, 6), (1, 6), (1,))
    results = [main.tensor(shape, name=f"y{n}") for n, shape in enumerate(shapes)]
    main.ends_with(*main.op("CUSTOM", inputs, results, custom_code=DETECTION, custom_options=custom_options))
    return file


@pytest.mark.parametrize(
    ("custom_options", "words"),
    [
        (options(use_regular_nms=True), "class by class"),
        (options(max_classes_per_detection=2), "several classes of a box"),
        (options(num_classes=5), "3 scores for 5 classes"),
        (options(y_scale=0.0), "make no sense"),
        (options(max_detections="many"), "max_detections is none"),
        (b"\x07\x00\x01", "no map of numbers"),
        (b"", "no map of numbers"),
    ],
)
def test_a_detector_whose_options_have_no_counterpart_is_refused(custom_options: bytes, words: str) -> None:
    message = refused(detector(custom_options))
    assert words in message
    assert f"({DETECTION} -> y0)" in message


@pytest.mark.parametrize(
    ("custom_options", "words"),
    [
        (np.array([1, 2], "<i4").tobytes(), "too short"),
        (np.array([2, 2, 2], "<i4").tobytes(), "padding 2 is unknown: only SAME (1) is known"),
        (np.array([1, 0, 2], "<i4").tobytes(), "its stride is [2, 0]"),
    ],
)
def test_options_of_a_transposed_convolution_that_make_no_sense_are_refused(custom_options: bytes, words: str) -> None:
    file = File()
    main = file.main
    inputs = [main.input((1, 4, 4, 3)), main.constant(normal(2, 2, 2, 3)), main.constant(normal(2))]
    made = main.op("CUSTOM", inputs, [main.tensor((1, 8, 8, 2))], custom_code=TRANSPOSED, custom_options=custom_options)
    main.ends_with(*made)
    assert words in refused(file)


def test_a_custom_operator_is_not_taken_for_one_of_the_runtime() -> None:
    file = File()
    main = file.main
    main.ends_with(*main.op("CUSTOM", [main.input((2,))], [main.tensor((2,), name="y")], custom_code="ABS"))
    assert "custom operator ABS" in refused(file)
