"""What cannot be read right is refused: the node, its operator, the reason."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter_lite.errors import ModelError
from tests.formats.mindir.cases_images import conv_own
from tests.formats.mindir.files import Described, Name, Program, Weight, chunk, read, save, tensor, whole
from tests.formats.mindir.test_structure import program
from tests.support import normal

W = Weight(normal(4, 3, 3, 3))


def node(operator: str, *further: Any, shape: tuple[int, ...] = (2, 3, 6, 7), **options: Any) -> bytes:
    """A file with one node, whose first argument is the input."""
    return program(lambda p, x: p.node(operator, x, *further, **options), shape=shape)


def conv(**own: Any) -> bytes:
    return node("Conv2D", W, own={**conv_own(), **own})


REFUSED: dict[str, tuple[bytes, str]] = {
    "an operator of nobody": (node("Magic"), r"'Default/Magic-op1' \(Magic\).*no operator of MindSpore that is known"),
    "a misspelt operator": (node("Sigmiod"), "did you mean Sigmoid"),
    "control flow": (node("Switch"), "control flow depends on numbers"),
    "a state": (node("Assign"), "changes a weight or a state"),
    "training": (node("Dropout"), "drops numbers at random"),
    "quantization": (node("FakeQuantPerLayer"), "the model is quantized"),
    "an accelerator": (node("FlashAttentionScore"), "attention in one operator"),
    "a program": (node("Custom"), "runs a program of its own"),
    "a newer form": (node("ReLU", 1), "2 arguments, and 1 are known: a newer form"),
    "a missing argument": (node("MatMul"), "no argument 'y'"),
    "a wrong argument": (node("Softmax", "words"), "its argument 'axis' is 'words'"),
    "an axis too far": (node("Softmax", 4), "inputs do not fit"),
    "a tuple for a tensor": (node("Add", ("a",)), "its argument 'y' is no tensor"),
    "other weights": (conv(kernel_size=(5, 5)), r"shape \[4, 3, 3, 3\] for a kernel of \[5, 5\]"),
    "channels last": (conv(format="NHWC"), "order NHWC"),
    "another padding": (conv(pad_mode="reflect"), "pad_mode 'reflect'"),
    "pads of three sides": (conv(pad_mode="pad", pad=(1, 1, 1)), r"its argument 'pad' is \[1, 1, 1\]"),
    "another convolution": (conv(mode=3), "mode 3"),
    "stride 0": (conv(stride=(1, 1, 0, 0)), "no 2 sizes"),
    "a transposed convolution of mint": (
        node("Convolution", W, None, 1, 0, 1, True, 0, 1),
        "a transposed convolution in this form",
    ),
    "same with a stride": (node("Conv2DPadding", W, None, 2, 1, 1, 1), "padding 'same' with strides"),
    "an impossible size": (
        node("Conv2DTranspose", Weight(normal(3, 3, 3, 3)), (2, 3, 40, 40), own=conv_own("pad")),
        "cannot become",
    ),
    "statistics of the batch": (
        node("BatchNorm", *(Weight(np.ones(3, np.float32)) for _ in range(4)), True, 1e-5, 0.1, 0),
        "statistics of its batch",
    ),
    "two axes of a LayerNorm": (
        node("LayerNorm", Weight(np.ones(7, np.float32)), Weight(np.ones(7, np.float32)), 3, 2, 1e-5),
        "begin_norm_axis and begin_params_axis differ",
    ),
    "an approximation": (node("GeluExt", 7), "its argument 'approximate' is no text"),
    "a softplus": (node("SoftplusExt", 2, 20), "beta 2"),
    "an LSTM of two layers": (
        program(
            lambda p, x: p.node(
                "LSTM", x, x, x, x, own={"num_layers": 2, "hidden_size": 4, "input_size": 6, "bidirectional": False}
            )
        ),
        "several layers, directions",
    ),
    "an LSTM with weights of a node": (
        program(lambda p, x: p.node("LSTM", x, x, x, x, own={"hidden_size": 4, "input_size": 6})),
        "its weights are known at run time only",
    ),
    "an LSTM of another size": (
        program(
            lambda p, x: p.node(
                "LSTM", x, x, x, np.zeros((9, 1, 1), np.float32), own={"hidden_size": 4, "input_size": 6}
            )
        ),
        "9 weights for 6 inputs and 4 hidden numbers",
    ),
    "a slice at run time": (
        program(lambda p, x: p.node("StridedSlice", x, p.node("Argmax", x, 1, 35), (1,), (1,), 0, 0, 0, 0, 0)),
        "its argument 'begin' is known at run time only",
    ),
    "batch_dims": (
        program(lambda p, x: p.node("Gather", x, p.node("Argmax", x, 1, 35), 0, 1)),
        "batch_dims",
    ),
    "another type in the file": (
        node("ReLU", declared=Described("float16", (2, 3, 6, 7))),
        "its result is float32, and float16 in the file",
    ),
    "another shape in the file": (
        node("ReLU", declared=Described("float32", (2, 3, 6, 8))),
        "its result has the shape 2x3x6x7, and 2x3x6x8 in the file",
    ),
    "a part that is not translated": (
        program(
            lambda p, x: p.node(
                "TupleGetItem",
                p.node(
                    "LayerNorm",
                    x,
                    *(Weight(np.ones(3, np.float32)) for _ in range(2)),
                    -1,
                    -1,
                    1e-5,
                    declared=(Described("float32", (2, 3)), Described("float32", (2, 1)), Described("float32", (2, 1))),
                ),
                1,
            )
        ),
        "the model gives a part of the result of LayerNorm",
    ),
    "a result that is a number": (program(lambda p, x: p.node("Rank", x)), "the model gives 2, which is no tensor"),
    "an unknown name": (program(lambda p, x: p.node("ReLU", Name("net:nothing"))), "which nothing before it gives"),
    "a type that is not read": (node("Cast", 48), "names the type 48"),
    "a fill without end": (
        program(lambda p, x: p.node("Add", x, p.node("Zeros", (1 << 20, 1 << 20), 43))),
        "more than a network has",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_program_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    content, message = REFUSED[name]
    with pytest.raises(ModelError, match=message) as caught:
        read(save(tmp_path, content))
    assert str(tmp_path / "net.mindir") in caught.value.where


def test_all_operators_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    content = program(lambda p, x: p.node("Magic", p.node("Wonder", p.node("Assign", x))))
    with pytest.raises(ModelError, match="neither can Wonder, Magic"):
        read(save(tmp_path, content))


@pytest.mark.parametrize("number", [0x7F3A5ED8, 0x7F3A5ED9])
def test_an_encrypted_file_is_refused(number: int, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the file is encrypted"):
        read(save(tmp_path, struct.pack("<I", number) + bytes(100)))


def weight_file(content: bytes) -> bytes:
    """A file whose only weight is this TensorProto."""
    made = Program()
    x = made.input("x", "float32", (2, 3))
    made.parameters.append(content + chunk(7, "net:w") + chunk(13, "w"))
    return made.file(made.node("Add", x, made.load(Name("net:w"))))


ONES = tensor(np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ONES + whole(16, 1), "compressed"),
        (ONES + chunk(17, chunk(1, "linear")), "has quantization parameters"),
        (whole(1, 2) + whole(1, 3) + whole(2, 16), "of type bfloat16"),
        (whole(1, 2) + whole(1, -1) + whole(2, 1), "open shape 2x[?]"),
        (ONES + whole(1, 2), "24 bytes for 2x3x2"),
        (whole(1, 1) + whole(2, 1) + chunk(3, bytes(4)), "one by one"),
    ],
)
def test_weights_that_cannot_be_read_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        read(save(tmp_path, weight_file(content)))


def test_functions_in_a_circle_are_refused(tmp_path: Path) -> None:
    made, inner = Program(), Program(name="again")
    x = made.input("x", "float32", (2, 3))
    made.function(inner, inner.call("again", inner.input("v", "float32", (2, 3))))
    with pytest.raises(ModelError, match="call each other in a circle"):
        read(save(tmp_path, made.file(made.call("again", x))))


def test_functions_that_are_called_without_end_are_refused(tmp_path: Path) -> None:
    """Each calls the next one twice."""
    made, depth = Program(), 24
    x = made.input("x", "float32", (2, 3))
    for level in range(depth):
        inner = Program(name=f"f{level}")
        value = inner.input("v", "float32", (2, 3))
        for _ in range(2):
            value = inner.call(f"f{level + 1}", value) if level < depth - 1 else inner.node("ReLU", value)
        made.function(inner, value)
    with pytest.raises(ModelError, match="called more often than a network does"):
        read(save(tmp_path, made.file(made.call("f0", x))))


def test_hash_tables_and_texts_as_inputs_are_refused(tmp_path: Path) -> None:
    made = Program()
    made.input("x", "float32", (2, 3))
    made.inputs[0] = chunk(1, "net:x") + chunk(2, whole(1, 2) + whole(2, 8))
    with pytest.raises(ModelError, match=r"input 'x' is no tensor of numbers \(string\)"):
        read(save(tmp_path, made.file(Name("net:x"))))
    with pytest.raises(ModelError, match="hash tables"):
        read(save(tmp_path, chunk(7, chunk(10, b""))))


@pytest.mark.parametrize("content", [b"", b"x = 1\n", b"\x08\x01", chunk(2, "MindSpore")])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"MindIR|no graph"):
        read(save(tmp_path, content))
