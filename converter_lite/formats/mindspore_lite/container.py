"""A ``.ms`` file in memory: tensors, nodes, and the conversion from and to bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.enums import Compression, DataType, Format, NodeType, QuantType
from converter_lite.formats.mindspore_lite.schema import FMK_ONNX, IDENTIFIER, SCHEMA, VERSION
from converter_lite.system.encryption import is_encrypted

MAX_FILE = 2**31 - 1
"""Bytes; offsets of a FlatBuffer are signed 32-bit numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class MsQuant:
    """Quantization parameters of a tensor: ``real = (q - zero_point) * scale * var_corr + mean_corr``.

    Shapes:
        every array: ``(1,)`` per tensor, ``(channels,)`` per channel. The released runtimes apply the two corrections
        only when there is more than one entry.
    """

    scale: NDArray[np.float64]
    zero_point: NDArray[np.int32]
    bits: int
    var_corr: NDArray[np.float32]
    mean_corr: NDArray[np.float32]

    @classmethod
    def of(cls, scale: Any, zero_point: Any, bits: int) -> MsQuant:
        """Parameters without corrections."""
        scales = np.atleast_1d(np.asarray(scale, np.float64))
        zeros = np.atleast_1d(np.asarray(zero_point, np.int32))
        ones, none = np.ones(len(scales), np.float32), np.zeros(len(scales), np.float32)
        return cls(scales, zeros, bits, ones, none)


@dataclass(slots=True, eq=False)
class MsTensor:
    """One tensor.

    Attributes:
        data: An array of a constant, the encoded bytes of a compressed one (``compression`` or bits that are packed),
            or ``None`` for variables.
        clusters: Codebook of a k-means weight; normally empty.
    """

    name: str
    dtype: DataType
    dims: tuple[int, ...]
    data: NDArray[Any] | bytes | None = None
    format: Format | int = Format.NHWC
    quant: MsQuant | None = None
    compression: Compression = Compression.NONE
    clusters: NDArray[np.float32] | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the file holds its value."""
        return self.data is not None


@dataclass(slots=True)
class MsNode:
    """One operator with its attributes and tensor numbers."""

    name: str
    op: str
    inputs: list[int]
    outputs: list[int]
    attributes: dict[str, Any] = field(default_factory=dict)
    quant_type: QuantType = QuantType.NONE


@dataclass(slots=True)
class MsModel:
    """A whole file; nodes are in topological order."""

    name: str = ""
    version: str = VERSION
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    nodes: list[MsNode] = field(default_factory=list)
    tensors: list[MsTensor] = field(default_factory=list)


def to_bytes(model: MsModel) -> bytes:
    """Serialize.

    Raises:
        FormatError: The file would exceed the size of a FlatBuffer.
    """
    size = sum(len(_raw(t)) for t in model.tensors if t.data is not None)
    if size > MAX_FILE - (1 << 20):
        raise FormatError(f"the weights take {size} bytes; a .ms file holds at most 2 GiB", hint="use --saveType=ONNX")
    everything = np.arange(len(model.tensors))
    root = {
        "name": model.name,
        "version": model.version,
        "fmkType": FMK_ONNX,
        "inputIndex": model.inputs,
        "outputIndex": model.outputs,
        "nodes": [_node_value(node) for node in model.nodes],
        "allTensors": [_tensor_value(tensor) for tensor in model.tensors],
        "subGraph": [
            {
                "name": f"subgraph_0_{model.name or 'main_graph'}",
                "inputIndices": model.inputs,
                "outputIndices": model.outputs,
                "nodeIndices": np.arange(len(model.nodes)),
                "tensorIndices": everything,
            }
        ],
    }
    return SCHEMA.encode("MetaGraph", root)


def _raw(tensor: MsTensor) -> bytes | memoryview:
    data = tensor.data
    if isinstance(data, np.ndarray):
        array = np.ascontiguousarray(data, tensor.dtype.numpy)
        return array.reshape(-1).view(np.uint8).data if array.size else b""
    return data or b""


def _node_value(node: MsNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "primitive": {"value": (node.op, node.attributes)},
        "inputIndex": node.inputs,
        "outputIndex": node.outputs,
        "quantType": int(node.quant_type),
    }


def _tensor_value(tensor: MsTensor) -> dict[str, Any]:
    constant = tensor.is_constant
    return {
        "name": tensor.name,
        "nodeType": NodeType.CONSTANT if constant else NodeType.VARIABLE,
        "dataType": int(tensor.dtype),
        "dims": list(tensor.dims) or None,
        "format": int(tensor.format),
        "data": _raw(tensor) if constant else None,
        "quantParams": None if tensor.quant is None else _quant_columns(tensor.quant),
        "quantClusters": tensor.clusters,
        "weightQuantCompressType": int(tensor.compression),
    }


def _quant_columns(quant: MsQuant) -> dict[str, NDArray[Any]]:
    return {
        "scale": quant.scale,
        "zeroPoint": quant.zero_point,
        "numBits": np.full(len(quant.scale), quant.bits, np.int32),
        "varCorr": quant.var_corr,
        "meanCorr": quant.mean_corr,
    }


def from_bytes(data: bytes) -> MsModel:
    """Parse a file; tensor data are views of it, still encoded.

    Raises:
        FormatError: The file is damaged, or uses something unknown.
    """
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        if is_encrypted(data):
            raise FormatError("the file is encrypted", hint="convert it with --fmk=MSLITE and --decryptKey")
        raise FormatError("this is not a MindSpore Lite model file", hint="the bytes 4 to 8 must read MSL2")
    root = SCHEMA.decode("MetaGraph", data)
    for name in ("inputIndex", "outputIndex", "nodes", "allTensors"):
        if name not in root:
            raise FormatError(f"the file has no {name}")
    tensors = [_tensor(value, f"tensor {i}") for i, value in enumerate(root["allTensors"])]
    model = MsModel(
        root.get("name", ""),
        root.get("version", ""),
        root["inputIndex"].tolist(),
        root["outputIndex"].tolist(),
        [_node(value, f"node {i}") for i, value in enumerate(root["nodes"])],
        tensors,
    )
    _check_indices(model)
    return model


def _node(value: dict[str, Any], where: str) -> MsNode:
    if "primitive" not in value:
        raise FormatError("a node has no operator", where=where)
    op, attributes = value["primitive"]["value"]
    return MsNode(
        value.get("name", ""),
        op,
        value["inputIndex"].tolist() if "inputIndex" in value else [],
        value["outputIndex"].tolist() if "outputIndex" in value else [],
        attributes,
        _enum(QuantType, _DEPRECATED_QUANT.get(value["quantType"], value["quantType"]), where),
    )


_DEPRECATED_QUANT = {1: QuantType.WEIGHT, 2: QuantType.WEIGHT, 3: QuantType.ALL}


def _tensor(value: dict[str, Any], where: str) -> MsTensor:
    where = f"{where} {value.get('name', '')}".strip()
    dims = tuple(value["dims"].tolist()) if "dims" in value else ()
    if len(value.get("externalData", ())) > 0:
        raise FormatError("the weights are in another file", where=where, hint="this reader takes single files only")
    constant = value["nodeType"] == NodeType.CONSTANT and "data" in value
    return MsTensor(
        value.get("name", ""),
        _enum(DataType, value["dataType"], where),
        dims,
        value["data"].data if constant else None,
        value["format"],
        _quant(value["quantParams"]) if len(value.get("quantParams", {}).get("scale", ())) else None,
        _enum(Compression, value["weightQuantCompressType"], where),
        value.get("quantClusters"),
    )


def _quant(columns: dict[str, NDArray[Any]]) -> MsQuant:
    return MsQuant(
        columns["scale"],
        columns["zeroPoint"],
        int(columns["numBits"][0]),
        np.where((columns["varCorr"] < 0) | (columns["varCorr"] > 10), np.float32(1), columns["varCorr"]),
        columns["meanCorr"],
    )


def _enum(kind: Any, number: int, where: str) -> Any:
    try:
        return kind(number)
    except ValueError as error:
        raise FormatError(f"{kind.__name__} {number} is unknown", where=where) from error


def _check_indices(model: MsModel) -> None:
    count = len(model.tensors)
    uses = [("the graph", model.inputs + model.outputs)]
    uses += [(f"node {node.name or i} ({node.op})", node.inputs + node.outputs) for i, node in enumerate(model.nodes)]
    for where, indices in uses:
        wrong = [i for i in indices if i >= count]
        if wrong:
            raise FormatError(f"tensor number {wrong[0]} does not exist; the file has {count}", where=where)
