"""A network as its description gives it: inputs, and the layers that run in the TEST phase.

Source: ``caffe.proto``, ``net.cpp`` and ``upgrade_proto.cpp`` of BVLC/caffe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from converter_lite.errors import FormatError, ModelError, did_you_mean
from converter_lite.formats.caffe.text import Message, parse
from converter_lite.formats.caffe.wire import Blob

PHASES = ("TRAIN", "TEST")

_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""What no text holds."""

MAX_BYTES = 1 << 22
"""Bytes of a description; those of the largest networks have a tenth of it."""

TOP_LEVEL = ("name", "input", "input_shape", "input_dim", "force_backward", "state", "debug_info", "layer", "layers")
"""Fields of a network."""

V1_TYPES = {
    word: (number, name)
    for number, word, name in (
        (35, "ABSVAL", "AbsVal"),
        (1, "ACCURACY", "Accuracy"),
        (30, "ARGMAX", "ArgMax"),
        (2, "BNLL", "BNLL"),
        (3, "CONCAT", "Concat"),
        (37, "CONTRASTIVE_LOSS", "ContrastiveLoss"),
        (4, "CONVOLUTION", "Convolution"),
        (5, "DATA", "Data"),
        (39, "DECONVOLUTION", "Deconvolution"),
        (6, "DROPOUT", "Dropout"),
        (32, "DUMMY_DATA", "DummyData"),
        (7, "EUCLIDEAN_LOSS", "EuclideanLoss"),
        (25, "ELTWISE", "Eltwise"),
        (38, "EXP", "Exp"),
        (8, "FLATTEN", "Flatten"),
        (9, "HDF5_DATA", "HDF5Data"),
        (10, "HDF5_OUTPUT", "HDF5Output"),
        (28, "HINGE_LOSS", "HingeLoss"),
        (11, "IM2COL", "Im2col"),
        (12, "IMAGE_DATA", "ImageData"),
        (13, "INFOGAIN_LOSS", "InfogainLoss"),
        (14, "INNER_PRODUCT", "InnerProduct"),
        (15, "LRN", "LRN"),
        (29, "MEMORY_DATA", "MemoryData"),
        (16, "MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss"),
        (34, "MVN", "MVN"),
        (17, "POOLING", "Pooling"),
        (26, "POWER", "Power"),
        (18, "RELU", "ReLU"),
        (19, "SIGMOID", "Sigmoid"),
        (27, "SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss"),
        (36, "SILENCE", "Silence"),
        (20, "SOFTMAX", "Softmax"),
        (21, "SOFTMAX_LOSS", "SoftmaxWithLoss"),
        (22, "SPLIT", "Split"),
        (33, "SLICE", "Slice"),
        (23, "TANH", "TanH"),
        (24, "WINDOW_DATA", "WindowData"),
        (31, "THRESHOLD", "Threshold"),
    )
}
"""Type of a layer in the old format -> its number and the name in the present one."""


@dataclass(slots=True)
class Layer:
    """One layer.

    Attributes:
        name: Its name, by which its weights are found.
        type: As the present format names it.
        bottoms: Blobs that it reads.
        tops: Blobs that it writes.
        message: All of its fields.
        blobs: Its weights.
    """

    name: str
    type: str
    bottoms: list[str]
    tops: list[str]
    message: Message
    blobs: list[Blob] = field(default_factory=list)

    @property
    def place(self) -> str:
        """For messages."""
        return f"line {self.message.line}: layer '{self.name}' ({self.type})"


@dataclass(slots=True)
class Network:
    """A network.

    Attributes:
        name: Its name.
        inputs: Name and sizes of each input, no sizes where the description gives none.
        layers: Layers of the TEST phase, in the order in which they run; none of type ``Input``.
        where: Its file.
        left_out: Blobs that layers of other phases write.
    """

    name: str
    inputs: list[tuple[str, list[int]]]
    layers: list[Layer]
    where: str = ""
    left_out: frozenset[str] = frozenset()


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Say in errors of what is called where in the file it was.

    Raises:
        ModelError: With the place.
    """
    try:
        yield
    except (ModelError, FormatError) as error:
        place = f"{where} {error.where}".strip() if error.where not in where else where
        raise ModelError(error.message, where=place, hint=error.hint) from None


def read_network(data: bytes, *, where: str = "") -> Network:
    """The network that a ``.prototxt`` describes.

    Raises:
        ModelError: It is no text of that format, or it describes something else, or in a way that Caffe refuses.
    """
    with naming(where):
        if _BINARY.search(data):
            raise ModelError(
                "this is a binary file, not the description of a network",
                hint="--modelFile names the .prototxt, --weightFile the .caffemodel",
            )
        if len(data) > MAX_BYTES:
            raise ModelError(
                f"a description of {len(data):,} bytes", hint=f"those of networks have less than {MAX_BYTES:,}"
            )
        return _network(parse(data.decode("utf-8-sig", "replace")), where)


def _network(root: Message, where: str) -> Network:
    _check_top_level(root)
    state, inputs, layers, left_out = root.message("state"), _declared_inputs(root), [], set[str]()
    for message in (*root.messages("layer"), *root.messages("layers")):
        with naming(f"line {message.line}"):
            layer = _old_layer(message) if root.has("layers") else _layer(message)
        with naming(layer.place):
            if not _runs(message, state):
                left_out.update(layer.tops)
                continue
            if layer.type == "Input":
                inputs += _inputs_of(layer)
            else:
                layers.append(layer)
    return Network(root.text("name"), inputs, layers, where, frozenset(left_out))


def _check_top_level(root: Message) -> None:
    if any(root.has(name) for name in ("net", "train_net", "base_lr")):
        raise ModelError("this describes a training (a solver), not a network", hint="give the network that it names")
    for name, values in root.fields.items():
        if name not in TOP_LEVEL and any(isinstance(value, Message) for value in values):
            raise ModelError(f"a network has no field {name}{did_you_mean(name, TOP_LEVEL)}")
    if root.has("layer") and root.has("layers"):
        raise ModelError("it has layers in the present and in the old format (layer and layers)")
    if not root.has("layer") and not root.has("layers"):
        raise ModelError("it describes no layers", hint="--modelFile names the .prototxt of a network")


def _layer(message: Message) -> Layer:
    kind = message.text("type")
    if not kind:
        raise ModelError("a layer without a type")
    return Layer(message.text("name"), kind, message.texts("bottom"), message.texts("top"), message)


def _old_layer(message: Message) -> Layer:
    """A layer in the format of 2014, whose types are words of an enumeration."""
    if message.has("layer"):
        raise ModelError(
            "the network is in the first format of Caffe (V0)",
            hint="Caffe's tool upgrade_net_proto_text turns it into the present one",
        )
    word = message.word("type", "NONE", {word: number for word, (number, _) in V1_TYPES.items()})
    return Layer(message.text("name"), V1_TYPES[word][1], message.texts("bottom"), message.texts("top"), message)


def _runs(message: Message, state: Message) -> bool:
    """Whether a layer is there in the TEST phase."""
    include, exclude = message.messages("include"), message.messages("exclude")
    if include and exclude:
        raise ModelError("it has rules of both kinds, include and exclude")
    if include:
        return any(_meets(state, rule) for rule in include)
    return not any(_meets(state, rule) for rule in exclude)


def _meets(state: Message, rule: Message) -> bool:
    level, stages = state.integer("level"), set(state.texts("stage"))
    return (
        (not rule.has("phase") or rule.word("phase", "", PHASES) == "TEST")
        and (not rule.has("min_level") or level >= rule.integer("min_level"))
        and (not rule.has("max_level") or level <= rule.integer("max_level"))
        and stages >= set(rule.texts("stage"))
        and not stages & set(rule.texts("not_stage"))
    )


def _declared_inputs(root: Message) -> list[tuple[str, list[int]]]:
    """Inputs at the top of a description: ``input`` with ``input_shape``, or with four ``input_dim`` for each."""
    names, shapes = root.texts("input"), [shape.sizes("dim") for shape in root.messages("input_shape")]
    sizes = root.sizes("input_dim")
    if sizes and not shapes:
        shapes = [sizes[start : start + 4] for start in range(0, len(sizes), 4)]
    if (shapes and len(shapes) != len(names)) or len(sizes) not in (0, 4 * len(names)):
        raise ModelError(f"it has {len(names)} inputs and shapes for {len(sizes) / 4 if sizes else len(shapes):g}")
    return [(name, shapes[index] if shapes else []) for index, name in enumerate(names)]


def _inputs_of(layer: Layer) -> list[tuple[str, list[int]]]:
    shapes = [shape.sizes("dim") for shape in layer.message.message("input_param").messages("shape")]
    if len(shapes) not in (0, 1, len(layer.tops)):
        raise ModelError(f"it has {len(layer.tops)} tops and {len(shapes)} shapes")
    if len(shapes) == 1:
        shapes *= len(layer.tops)
    return [(name, shapes[index] if shapes else []) for index, name in enumerate(layer.tops)]
