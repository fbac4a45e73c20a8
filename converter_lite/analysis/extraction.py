"""Extracting layers from both models, with recorded inputs, so that each runs alone.

The quantized part has the same inputs and outputs as the float part: the order of channels, equalization factors and integers at
its borders are converted inside the part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.analysis.channel_map import Indices
from converter_lite.analysis.comparison import Comparison, LayerError
from converter_lite.analysis.isolation import ALONE, Isolated, fed_tensors
from converter_lite.analysis.recorded import SET, recorded_files
from converter_lite.formats.onnx.writer import save
from converter_lite.kernels.params import QuantParams
from converter_lite.reports.cutting import integer_type
from converter_lite.reports.observation import observable
from converter_lite.runtime.engine import Engine, Feed
from converter_lite.runtime.serializing import open_file, open_session
from converter_lite.system.files import transaction

RECORDED = 4
"""Samples recorded per layer."""

LONGEST_NAME = 48
"""Characters of a folder name."""


@dataclass(frozen=True, slots=True)
class Part:
    """One layer cut out.

    Attributes:
        error: The layer.
        folder: Name of its folder.
        reference: Float part.
        quantized: Quantized part, with the same inputs and output.
    """

    error: LayerError
    folder: str
    reference: ir.Model
    quantized: ir.Model


def extract_worst(
    comparison: Comparison, reference: ir.Model, feeds: Sequence[Feed], folder: Path, *, count: int, engine: Engine
) -> tuple[list[Part], list[str]]:
    """Write the worst layers to ``folder``.

    Args:
        comparison: Which layers are worst.
        reference: The float graph.
        feeds: Samples of the comparison; the first ``RECORDED`` are recorded.
        folder: Made if missing.
        count: Layers.
        engine: Runs the graphs.

    Returns:
        The parts, and a sentence for each bad layer that cannot be extracted.

    Raises:
        ModelError: A part does not run.
        ConverterError: The folder cannot be written.
    """
    parts: list[Part] = []
    left: list[str] = []
    errors = {error.layer.tensor: error for error in comparison.layers}
    for error in comparison.worst_first:
        if len(parts) == count:
            break
        found = _part(len(parts) + 1, error, reference, comparison.isolated, errors)
        if isinstance(found, Part):
            parts.append(found)
        else:
            left.append(found)
    with transaction(folder) as files:
        made = [item for part in parts for item in _write(part, reference, feeds[:RECORDED], files.work, engine)]
        readme = files.work / "README.md"
        readme.write_text(_readme(parts), encoding="utf-8", newline="\n")
        for path in (*made, readme):
            target = folder / path.relative_to(files.work)
            target.parent.mkdir(parents=True, exist_ok=True)
            files.add(path, target)
        files.commit()
    return parts, left


def _part(
    number: int, error: LayerError, reference: ir.Model, isolated: Isolated | None, errors: Mapping[str, LayerError]
) -> Part | str:
    name = error.layer.tensor
    if isolated is None or name not in isolated.computed:
        return f"{name}: the quantized model computes it together with other layers"
    model = isolated.graph_of([name])
    fed = fed_tensors(model)
    try:
        values = ir.convenience.create_value_mapping(reference.graph, include_subgraphs=False)
        graph = g.extracted(reference.graph, [values[tensor] for tensor in fed.values()], [values[name]])
    except ValueError as problem:
        return f"{name}: the float model computes it from other tensors ({problem})"
    _name_plainly(model.graph)
    _take_floats(model.graph, fed, errors)
    _give_floats(model.graph, error)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-LONGEST_NAME:].strip("._")
    ranks = {tensor: len(known.shape) for tensor, known in errors.items()}
    for value in (*graph.inputs, *graph.outputs, *model.graph.inputs, *model.graph.outputs):
        value.dtype = value.dtype or ir.DataType.FLOAT
        if value.shape is None and value.name in ranks:
            value.shape = ir.Shape([None] * ranks[value.name])
    return Part(error, f"{number:02}_{safe}", ir.Model(graph, ir_version=reference.ir_version), model)


def _name_plainly(graph: ir.Graph) -> None:
    """Names without the marks of the extraction, so that the part can be cut itself."""
    for node in graph:
        node.name = (node.name or "").replace(ALONE.format(""), "_alone")
        for output in node.outputs:
            if (output.name or "").endswith(ALONE.format("")):
                output.name = g.unique_name(graph, (output.name or "").replace(ALONE.format(""), "_alone"))


def _take_floats(graph: ir.Graph, fed: Mapping[str, str], errors: Mapping[str, LayerError]) -> None:
    """Name the inputs as in the float model, and convert their values to what the part reads."""
    _rename_inner(graph, set(fed.values()))
    for value in graph.inputs:
        tensor = fed[str(value.name)]
        value.name = tensor
        if tensor not in errors:
            continue
        known, rank = errors[tensor].scaled, len(errors[tensor].shape)
        if known.entry_params is not None:
            value.dtype = ir.DataType.FLOAT
        users = tuple(value.uses())
        made = value
        if known.held is not None and known.held.factors is not None:
            made = _multiplied(graph, made, known.held.along(rank))
        if known.held is not None and known.held.order is not None:
            made = _reordered(graph, made, known.held.order, known.held.axis)
        if known.entry_params is not None:
            made = _quantized(graph, made, known.entry_params)
        for node, position in users if made is not value else ():
            node.replace_input_with(position, made)
    graph.sort()


def _give_floats(graph: ir.Graph, error: LayerError) -> None:
    """Name the output as in the float model, and give it the float model's values."""
    value, tensor = graph.outputs[0], error.layer.tensor
    params, held = error.scaled.tap.params, error.scaled.held
    if params is not None:
        value = _dequantized(graph, value, params)
    if held is not None and held.back is not None:
        value = _reordered(graph, value, held.back, held.axis)
    if held is not None and held.factors is not None:
        value = _multiplied(graph, value, 1.0 / held.along(len(error.shape)))
    _rename_inner(graph, {tensor})
    value.name = tensor
    value.dtype = value.dtype or ir.DataType.FLOAT
    graph.outputs[0] = value


def _rename_inner(graph: ir.Graph, names: set[str]) -> None:
    """Free names that values inside the part have."""
    for node in graph:
        for output in node.outputs:
            if output.name in names:
                output.name = g.unique_name(graph, f"{output.name}_inner")


def _append(graph: ir.Graph, op_type: str, inputs: Sequence[ir.Value], name: str, dtype: ir.DataType) -> ir.Value:
    node = ir.node(op_type, inputs, name=name)
    node.outputs[0].name, node.outputs[0].dtype, node.outputs[0].shape = name, dtype, inputs[0].shape
    graph.append(node)
    return node.outputs[0]


def _multiplied(graph: ir.Graph, value: ir.Value, factors: NDArray[np.float32]) -> ir.Value:
    constant = g.add_initializer(graph, f"{value.name}_factors", factors.astype(np.float32))
    name = g.unique_name(graph, f"{value.name}_scaled")
    return _append(graph, "Mul", [value, constant], name, ir.DataType.FLOAT)


def _reordered(graph: ir.Graph, value: ir.Value, order: Indices, axis: int) -> ir.Value:
    constant = g.add_initializer(graph, f"{value.name}_order", order.astype(np.int64))
    name = g.unique_name(graph, f"{value.name}_reordered")
    made = _append(graph, "Gather", [value, constant], name, value.dtype or ir.DataType.FLOAT)
    node = made.producer()
    assert node is not None
    node.attributes["axis"] = ir.AttrInt64("axis", axis)
    return made


def _grid(graph: ir.Graph, value: ir.Value, params: QuantParams) -> list[ir.Value]:
    zero = params.zero_point.astype(integer_type(params))
    return [
        g.add_initializer(graph, f"{value.name}_scale", params.scale),
        g.add_initializer(graph, f"{value.name}_zero_point", zero),
    ]


def _quantized(graph: ir.Graph, value: ir.Value, params: QuantParams) -> ir.Value:
    grid = _grid(graph, value, params)
    name = g.unique_name(graph, f"{value.name}_quantized")
    return _append(graph, "QuantizeLinear", [value, *grid], name, grid[1].dtype or ir.DataType.UINT8)


def _dequantized(graph: ir.Graph, value: ir.Value, params: QuantParams) -> ir.Value:
    name = g.unique_name(graph, f"{value.name}_dequantized")
    return _append(graph, "DequantizeLinear", [value, *_grid(graph, value, params)], name, ir.DataType.FLOAT)


def _write(part: Part, reference: ir.Model, feeds: Sequence[Feed], work: Path, engine: Engine) -> list[Path]:
    """Both models of a part with their inputs and outputs for the samples; returns the files."""
    samples = _inputs(part, reference, feeds, engine)
    for value in (*part.reference.graph.inputs, *part.quantized.graph.inputs):
        value.dtype = ir.DataType.from_numpy(samples[0][str(value.name)].dtype)  # it may not be known
    written: list[Path] = []
    for kind, model in (("float", part.reference), ("quantized", part.quantized)):
        folder = work / part.folder / kind
        folder.mkdir(parents=True)
        written += save(model, folder / "model.onnx")
        session = open_file(engine, folder / "model.onnx")
        order = [str(value.name) for value in model.graph.inputs]
        for index, sample in enumerate(samples):
            place = folder / SET.format(index)
            place.mkdir()
            for name, data in recorded_files({n: sample[n] for n in order}, session.run(sample)).items():
                (place / name).write_bytes(data)
                written.append(place / name)
    return written


def _inputs(part: Part, reference: ir.Model, feeds: Sequence[Feed], engine: Engine) -> list[dict[str, NDArray[Any]]]:
    """What the float model feeds the part with."""
    names = [str(value.name) for value in part.reference.graph.inputs]
    own = {value.name for value in reference.graph.inputs}
    inner = [name for name in names if name not in own]
    if not inner:
        return [{name: feed[name] for name in names} for feed in feeds]
    session = open_session(engine, observable(reference, inner))
    return [{n: feed[n] if n in own else values[n] for n in names} for feed in feeds for values in [session.run(feed)]]


def _readme(parts: Sequence[Part]) -> str:
    lines = ["# Worst layers, each as a model of its own", ""]
    lines += ["| folder | layer | operator | SQNR alone, dB | cosine alone |", "|---|---|---|---|---|"]
    for part in parts:
        error = part.error.local or part.error.accumulated
        tensor = part.error.layer.tensor.replace("|", "\\|")
        lines.append(
            f"| {part.folder} | {tensor} | {part.error.layer.op_type} | {error.sqnr:.1f} | {error.cosine:.6f} |"
        )
    first = parts[0].folder if parts else "FOLDER"
    lines += [
        "",
        "`float/model.onnx` and `quantized/model.onnx` take the same inputs; `test_data_set_N` holds what they read",
        "(`input_*.pb`) and gave (`output_*.pb`). Run in this folder, this compares both again:",
        "",
        f"    converter_lite compare {first}/float/model.onnx {first}/quantized/model.onnx --inputs={first}/float",
    ]
    return "\n".join(lines) + "\n"
