"""The samples that an analysis runs on: recorded, configured, or random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from converter_lite.analysis.recorded import read_recorded
from converter_lite.analysis.taps import tap_of
from converter_lite.data.configured import configured_dataset
from converter_lite.data.inputs import input_specs
from converter_lite.data.layout import Layout
from converter_lite.data.random_samples import random_samples
from converter_lite.data.remember import RememberingDataset
from converter_lite.kernels.params import QuantParams
from converter_lite.log import Log
from converter_lite.runtime.engine import Feed

if TYPE_CHECKING:
    from converter_lite.config.settings import QuantizationConfig

MOVING = frozenset({"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
"""Operators whose output holds the values of their input."""


@dataclass(frozen=True, slots=True)
class SampleSource:
    """Where samples come from.

    Attributes:
        config: Configuration whose ``[data_preprocess_param]`` names data, if any.
        recorded: File or folder of recorded samples; it takes precedence over the configuration.
        input_shapes: Sizes of open dimensions.
        input_format: Layout of BIN files of four-dimensional inputs.
        threads: Decoding threads.
        confined: Refuse samples outside their folder.
    """

    config: QuantizationConfig | None = None
    recorded: Path | None = None
    input_shapes: Mapping[str, tuple[int, ...]] | None = None
    input_format: str = "NHWC"
    threads: int = 1
    confined: bool = True

    def dataset(self, model: ir.Model, log: Log) -> RememberingDataset | None:
        """The configured data, ``None`` if there are none.

        Raises:
            DataError: They are missing or do not fit the model.
        """
        data = self.config.data_preprocess_param if self.config is not None else None
        specs = input_specs(model, self.input_shapes)
        layout = Layout(self.input_format)
        found = configured_dataset(
            data, specs, input_format=layout, workers=min(self.threads, 4), confined=self.confined
        )
        if found is None:
            return None
        for note in found.notes:
            log.info(note)
        for warning in found.warnings:
            log.warning(warning)
        return RememberingDataset(found)

    def feeds(self, model: ir.Model, count: int, log: Log, *, quantized: ir.Model) -> tuple[list[Feed], bool]:
        """Samples, and whether they are real; random samples are announced, and fill the input grid of ``quantized``.

        Raises:
            DataError: They cannot be read or do not fit the model.
        """
        if self.recorded is not None:
            found: list[Feed] = list(read_recorded(self.recorded, input_specs(model, self.input_shapes), limit=count))
            return found, True
        dataset = self.dataset(model, log)
        if dataset is not None:
            return list(dataset.head(count)), True
        log.warning("there are no data, so random samples are used: they show defects, not accuracy")
        return random_feeds(model, count, quantized=quantized, input_shapes=self.input_shapes), False


def random_feeds(
    model: ir.Model, count: int, *, quantized: ir.Model, input_shapes: Mapping[str, tuple[int, ...]] | None = None
) -> list[Feed]:
    """Random samples of ``model`` that fill the input grid of ``quantized``."""
    grids = {str(value.name): grid for value in quantized.graph.inputs if (grid := _grid_behind(value)) is not None}
    drawn = random_samples(model, count, fixed_shapes=input_shapes)
    return [_within(grids, feed, index) for index, feed in enumerate(drawn)]


def _grid_behind(value: ir.Value) -> QuantParams | None:
    """The grid that an input is quantized to directly, or behind operators that only move values."""
    for node, _ in value.uses():
        if node.op_type == "QuantizeLinear":
            tap = tap_of(node.outputs[0])
            return None if tap is None else tap.params
        if node.op_type in MOVING:
            return _grid_behind(node.outputs[0])
    return None


def _within(grids: Mapping[str, QuantParams], feed: Feed, seed: int) -> Feed:
    """Numbers spread evenly over the range of the grid, if there is one: values outside it would only be clipped."""
    rng, filled = np.random.default_rng(seed), dict(feed)
    for name, params in grids.items():
        if name in filled and filled[name].dtype == np.float32:
            low, high = (float(bound) for bound in params.real_range)
            filled[name] = rng.uniform(low, high, filled[name].shape).astype(np.float32)
    return filled
