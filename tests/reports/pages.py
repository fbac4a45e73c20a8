"""Pages about small and about large models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from converter_lite.quantization.plan import QuantizedModel
from converter_lite.reports.accuracy import OutputAccuracy
from converter_lite.reports.figures import ModelFigures
from converter_lite.reports.layers import measure
from converter_lite.reports.page.content import FormatContent, PageContent, Section
from converter_lite.reports.preview import previews
from converter_lite.runtime.context import RunContext
from tests.support import Samples, build, full, normal, samples_of

ACCURACY = OutputAccuracy("y", 0.9991, 0.998, 31.2, 0.05, 2.5)


def chain(layers: int, *, channels: int = 8) -> ir.Model:
    """``layers`` convolutions, each but the last with a Relu; a Softmax that stays in float ends them."""
    lines, weights, value = [], {}, "x"
    for index in range(layers):
        weights[f"w{index}"] = normal(channels, channels, 1, 1, seed=index) / np.float32(channels) ** 0.5
        lines.append(f"[conv_{index}] c{index} = Conv <kernel_shape = [1, 1]> ({value}, w{index})")
        value = f"c{index}"
        if index < layers - 1:
            lines.append(f"[relu_{index}] r{index} = Relu(c{index})")
            value = f"r{index}"
    lines.append(f"[softmax] y = Softmax <axis = 1> ({value})")
    shape = f"float[1,{channels},8,8]"
    return build(f"g ({shape} x) => ({shape} y) {{ {' '.join(lines)} }}", **weights)


def measured(quantized: QuantizedModel, original: ir.Model, samples: Samples, *, threads: int = 2) -> ModelFigures:
    """Figures of a quantized model over samples."""
    return measure(quantized, original, samples, is_real=True, context=RunContext(threads=threads))


def chain_figures(layers: int) -> ModelFigures:
    """Figures of a quantized chain."""
    model = chain(layers)
    samples = samples_of(model, 2)
    return measured(full(model, samples=samples), model, samples)


def content(figures: ModelFigures, *, title: str = "chain.onnx", formats: int = 1) -> PageContent:
    """A page about a model, once per format."""
    names = ("ONNX", "MINDIR_LITE", "NAIVE_BUFFER")[:formats]
    made = [FormatContent(name, f"out/{name}", 12_345, (ACCURACY,), 16, "calibration", 0.95, figures) for name in names]
    sample = {"x": normal(1, 3, 12, 16)}
    return PageContent(
        title,
        45_678,
        made,
        "converter_lite --fmk=ONNX --modelFile=chain.onnx --outputFile=out/chain",
        [Section("common_quant_param", (("quant_type", "FULL_QUANT"),))],
        previews([sample]),
        ["a warning"],
        {"calibration": 1.5},
        {"converter-lite": "0.1.0", "python": "3.11"},
    )


def renamed(figures: ModelFigures, old: str, new: str) -> ModelFigures:
    """The figures with another name for a layer."""
    layers = [replace(layer, name=new) if layer.name == old else layer for layer in figures.layers]
    return replace(figures, layers=layers)


def write_page(path: Path, page: PageContent) -> Path:
    """The page as a file."""
    from converter_lite.reports.page.render import render

    path.write_text(render(page), encoding="utf-8", newline="\n")
    return path
