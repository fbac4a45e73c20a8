"""State of one translation from a Caffe network to an ONNX graph.

A blob may be written again by a layer that works in place, so that the order of layers decides what its name means. The last
writer of a blob gets its name for the value in the graph, earlier ones a longer name. Every shape is known: Caffe's networks
have fixed ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.network import Layer, Network
from converter_lite.formats.caffe.text import Message
from converter_lite.formats.graph_builder import GraphBuilder, check_size, shape_of
from converter_lite.graph import ALIASES


@dataclass(slots=True, kw_only=True)
class Importer(GraphBuilder):
    """One translation.

    Attributes:
        network: What is translated.
        blobs_used: How many blobs the present layer has used.
    """

    network: Network
    blobs_used: int = 0
    _values: dict[str, ir.Value] = field(default_factory=dict)
    _writers_left: Counter[str] = field(default_factory=Counter)
    _unread: dict[str, None] = field(default_factory=dict)
    _readers: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for layer in self.network.layers:
            self._readers.update((name, self._writers_left[name]) for name in layer.bottoms)
            self._writers_left.update(layer.tops)
        self._readers = Counter(
            {(name, self._writers_left[name] - before): count for (name, before), count in self._readers.items()}
        )
        self._taken = dict.fromkeys((*self._writers_left, *(name for name, _ in self.network.inputs)), 1)

    def add_input(self, name: str, shape: Sequence[int]) -> None:
        """An input of the graph.

        Raises:
            ModelError: Two inputs have the name, or the shape makes no sense.
        """
        if name in self._values:
            raise ModelError(f"two inputs have the name '{name}'")
        if any(size < 1 for size in shape):
            raise ModelError(
                f"input '{name}' has the shape {list(shape)}", hint=f"--inputShape={name}:1,3,224,224 gives another"
            )
        value = ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))
        check_size(value)
        self.inputs.append(value)
        self._values[name] = value
        self._unread[name] = None

    def read(self, blob: str) -> ir.Value:
        """What a blob holds now.

        Raises:
            ModelError: No layer before has written it.
        """
        if blob not in self._values:
            trained = "a layer of another phase writes it: convert the deploy.prototxt"
            raise ModelError(
                f"it reads '{blob}', which no layer before it writes",
                hint=trained if blob in self.network.left_out else "",
            )
        return self._values[blob]

    def advance(self, layer: Layer) -> None:
        """Note what a layer reads and is going to write: outputs of the network are the blobs that nobody reads.

        Raises:
            ModelError: It writes a blob that there is already, and not in place.
        """
        for name in layer.bottoms:
            self._unread.pop(name, None)
        for index, name in enumerate(layer.tops):
            in_place = index < len(layer.bottoms) and layer.bottoms[index] == name
            if (name in self._values and not in_place) or name in layer.tops[:index]:
                raise ModelError(f"it writes '{name}', which another layer writes, and not in place")
            self._unread[name] = None

    def name_of_top(self, layer: Layer, index: int) -> str:
        """Name of the value that a layer writes."""
        blob = layer.tops[index]
        self._writers_left[blob] -= 1
        is_input = any(value.name == blob for value in self.inputs)
        return self.fresh(f"{blob}.{layer.name}") if self._writers_left[blob] or is_input else blob

    def write(self, blob: str, value: ir.Value) -> None:
        """Make a blob hold a value from now on."""
        self._values[blob] = value

    def is_read_once(self, blob: str) -> bool:
        """Whether one layer reads what a blob holds now, under this name or another one."""
        held = sum(value is self._values[blob] for value in self._values.values())
        return held == 1 and self._readers[blob, self._writers_left[blob]] == 1

    def merge(self, layer: Layer, node: ir.Node, inputs: Mapping[int, ir.Value]) -> None:
        """Let an earlier node do the work of a layer, too, with other inputs; its output is what the layer writes."""
        for index, value in inputs.items():
            node.replace_input_with(index, value)
        node.meta.setdefault(ALIASES, {node.name}).add(layer.name)
        node.outputs[0].name = self.name_of_top(layer, 0)
        self.write(layer.tops[0], node.outputs[0])

    def model(self) -> ir.Model:
        """The finished graph; its outputs are the blobs that nobody reads, by name as in Caffe.

        Raises:
            ModelError: There are none.
        """
        inputs = {str(value.name): value for value in self.inputs}
        names = sorted(name for name in self._unread if self._values[name] is not inputs.get(name))
        if not names:
            raise ModelError("the network computes nothing: every blob that it writes is read again")
        results: list[ir.Value] = []
        for name in names:
            value = self._values[name]
            if value.producer() is None or value in results or (value.name != name and name not in inputs):
                free = name if name not in inputs else self.fresh(f"{name}.output")
                value = self.node("Identity", [value], [free], self.label(f"{name}.Identity"), {})[0]
            results.append(value)
        return self.finished(results, self.network.name or "caffe")


@dataclass(frozen=True, slots=True)
class Step:
    """The translation of one layer.

    Attributes:
        importer: The whole translation.
        layer: The layer.
        parameters: The fields of its kind, ``convolution_param`` and so on.
    """

    importer: Importer
    layer: Layer
    parameters: Message

    def input(self, index: int = 0) -> ir.Value:
        """What the layer reads.

        Raises:
            ModelError: It has no such bottom, or nothing has written it.
        """
        if index >= len(self.layer.bottoms):
            raise ModelError(f"it needs {index + 1} bottoms")
        return self.importer.read(self.layer.bottoms[index])

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Its shape.

        Raises:
            ModelError: It is known at run time only.
        """
        return shape_of(self.input(index))

    def axis(self, name: str, default: int, *, ends: int = 0) -> int:
        """An axis of the first bottom, counted from the front; ``ends=1`` allows the place behind the last one, too.

        Raises:
            ModelError: There is none such.
        """
        rank, axis = len(self.shape()), self.parameters.integer(name, default)
        if not -rank - ends <= axis < rank + ends:
            raise ModelError(f"{name} is {axis}, and '{self.layer.bottoms[0]}' has {rank} dimensions")
        return axis + rank + ends if axis < 0 else axis

    def blob(self, index: int, shape: Sequence[int]) -> NDArray[np.float32]:
        """Weights, in the shape that the layer says; sizes of 1 may be missing or more in the file.

        Raises:
            ModelError: The file has none, or others.
        """
        if index >= len(self.layer.blobs):
            found = len(self.layer.blobs)
            raise ModelError(
                f"the weight file has {found} blob{'s' * (found != 1)} for it, and not at least {index + 1}"
            )
        self.importer.blobs_used = max(self.importer.blobs_used, index + 1)
        blob = self.layer.blobs[index]
        if [size for size in blob.shape if size != 1] != [size for size in shape if size != 1]:
            raise ModelError(
                f"its blob {index} has the shape {list(blob.shape)} in the weight file, not {list(shape)}",
                hint="the description and the weights are of different networks",
            )
        return blob.array().reshape(shape)

    def weight(self, index: int, shape: Sequence[int], what: str) -> ir.Value:
        """Weights as a constant of the graph.

        Raises:
            ModelError: See :meth:`blob`.
        """
        return self.constant(what, self.blob(index, shape))

    def constant(self, what: str, values: object, dtype: type[np.generic] = np.float32) -> ir.Value:
        """A constant that is named after the layer."""
        return self.importer.constant(f"{self.layer.name}.{what}", np.asarray(values, dtype))

    def emit(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """A node in the middle of a layer."""
        return self.emit_many(op_type, inputs, 1, **attributes)[0]

    def emit_many(
        self, op_type: str, inputs: Sequence[ir.Value | None], count: int, **attributes: Any
    ) -> list[ir.Value]:
        """A node in the middle of a layer, with several outputs."""
        importer, hint = self.importer, f"{self.layer.name}.{op_type.lower()}"
        names = [importer.fresh(hint) for _ in range(count)]
        return importer.node(op_type, inputs, names, importer.label(f"{self.layer.name}.{op_type}"), attributes)

    def finish(self, op_type: str, *inputs: ir.Value | None, top: int = 0, **attributes: Any) -> ir.Value:
        """The node that writes a top of the layer."""
        importer = self.importer
        name, label = importer.name_of_top(self.layer, top), importer.label(self.layer.name or op_type)
        value = importer.node(op_type, inputs, [name], label, attributes)[0]
        importer.write(self.layer.tops[top], value)
        return value

    def finish_many(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> None:
        """The node that writes all tops of the layer."""
        importer, tops = self.importer, self.layer.tops
        names = [importer.name_of_top(self.layer, index) for index in range(len(tops))]
        values = importer.node(op_type, inputs, names, importer.label(self.layer.name or op_type), attributes)
        for name, value in zip(tops, values, strict=True):
            importer.write(name, value)

    def bind(self, value: ir.Value, *, top: int = 0) -> None:
        """Let a top of the layer be a value that is there already."""
        self.importer.name_of_top(self.layer, top)
        self.importer.write(self.layer.tops[top], value)


@dataclass(frozen=True, slots=True)
class Kind:
    """How layers of one type are translated.

    Attributes:
        translate: Adds the nodes of a layer.
        becomes: ONNX operators, for the documentation.
        message: Field with its parameters, empty for a layer without any.
        fields: Fields of that message that are taken into account, or have no effect on results.
        bottoms, tops: Least and most of them.
        weighted: It has weights.
    """

    translate: Callable[[Step], None]
    becomes: str
    message: str = ""
    fields: str = ""
    bottoms: tuple[int, int] = (1, 1)
    tops: tuple[int, int] = (1, 1)
    weighted: bool = False
