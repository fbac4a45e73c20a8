"""The debug reports of a quantization: ``quant_param.csv``, ``round_<i>.csv``, ``output_summary.csv``.

docs/debug_reports.md explains how to read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import DataError
from converter_lite.graph import holds_numbers
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.reports import csv_rows
from converter_lite.reports.distribution import clipped_share, distribution, similarity
from converter_lite.reports.observation import Observer, Pair, dequantized, grouped, shapes
from converter_lite.reports.tensor_uses import TensorUse, tensor_uses
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.system.files import Transaction, transaction

QUANT_PARAM, SUMMARY = "quant_param.csv", "output_summary.csv"

NO_CORRECTION = ("1", "0")
"""``CorrectionVar`` and ``CorrectionMean`` of values that are read as they are stored."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Columns ``Min`` to ``CosineSimilarity`` of the Origin and the Dequant row of a tensor, and the cosine between both."""

    origin: list[str]
    dequantized: list[str]
    cosine: float


class DebugReport:
    """Reports of one quantized model.

    Args:
        folder: Where the files go; made if missing.
        quantized: What was quantized; not changed.
        context: Runs both models; its log receives the messages that the original prints.
        reference: Float graph whose activations are the Origin rows; it has the tensor names of ``quantized.model``. By
            default that graph itself, whose biases are already corrected.
    """

    def __init__(
        self,
        folder: Path,
        quantized: QuantizedModel,
        *,
        context: RunContext,
        reference: ir.Model | None = None,
    ) -> None:
        self._folder = folder
        self._quantized = quantized
        self._context = context
        self._reference = reference if reference is not None else quantized.model
        self._written = qdq_model(QuantizedModel(quantized.model.clone(), quantized.plan, quantized.q_weights))
        self._uses = tensor_uses(quantized, self._written)

    def write(self, samples: Iterable[Feed]) -> list[Path]:
        """Write all files, or none if anything fails.

        Args:
            samples: Feeds by input name, taken one at a time. Plans with integer nodes give one round per sample, others one
                round of the first sample.

        Returns:
            The files: round files in order, summary, parameters.

        Raises:
            DataError: There is no sample.
            ModelError: The runtime refuses a model or a sample.
            ConverterError: A file cannot be written.
        """
        feeds = iter(samples)
        first = next(feeds, None)
        if first is None:
            raise DataError("there is no sample to make debug reports from", hint="give at least one sample")
        rounds: Iterable[Feed] = [first]
        total: int | None = 1
        if self._quantized.plan.computes_with_integers:
            rounds, total = chain([first], feeds), len(samples) if isinstance(samples, Sized) else None
        with transaction(self._folder) as files:
            sizes = self._shapes(first)
            names = [*self._write_rounds(rounds, total, sizes, files.work), SUMMARY, QUANT_PARAM]
            self._write_params(files.work / QUANT_PARAM, sizes)
            self._commit(files, names)
        return [self._folder / name for name in names]

    def _shapes(self, feed: Feed) -> dict[str, tuple[int, ...]]:
        """Shapes of every shown tensor and of the graph outputs, for the first sample."""
        activations = [use.tensor for use in self._uses if not use.is_weight]
        found = shapes(self._reference, [*activations, *self._output_names()], feed, engine=self._context.engine)
        for use in self._uses:
            if use.is_weight:
                found[use.tensor] = self._weight(use.tensor).shape
        return found

    def _output_names(self) -> list[str]:
        """Graph outputs that hold numbers."""
        return [value.name for value in self._reference.graph.outputs if value.name and holds_numbers(value)]

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _write_rounds(
        self, feeds: Iterable[Feed], total: int | None, sizes: Mapping[str, tuple[int, ...]], work: Path
    ) -> list[str]:
        names: list[str] = []
        groups = grouped(self._pairs(), sizes)
        observer = Observer(self._reference, self._written, groups, engine=self._context.engine)
        weights = {use.tensor: self._measure_weight(use.tensor) for use in self._uses if use.is_weight}
        with ThreadPoolExecutor(max(self._context.threads, 1)) as pool, _create(work / SUMMARY) as summary:
            summary.write(csv_rows.SUMMARY_HEADER)
            for index, feed in enumerate(self._context.log.track(feeds, "debug reports", total)):
                self._context.log.info(f"Statistics the original data distribution. Round {index}")
                measured = observer.measure(feed, _measure, pool)
                names.append(f"round_{index}.csv")
                with _create(work / names[-1]) as stream:
                    stream.writelines(self._round_lines({pair.written: m for pair, m in measured.items()}, weights))
                summary.writelines(self._summary_lines(index, measured))
        return names

    def _pairs(self) -> list[Pair]:
        """Every shown tensor once, and the graph outputs as the quantized graph gives them."""
        shown = [Pair(use.tensor, use.written, use.params) for use in self._uses if not use.is_weight]
        outputs = [Pair(name, name) for name in self._output_names()]
        return list({pair.written: pair for pair in (*outputs, *shown)}.values())

    def _measure_weight(self, name: str) -> Measured:
        params = self._quantized.plan.weights[name]
        return _compare(self._weight(name), params.dequantize(self._quantized.integers(name)))

    def _weight(self, name: str) -> NDArray[np.float32]:
        tensor = self._quantized.model.graph.initializers[name].const_value
        assert tensor is not None
        return tensor.numpy().astype(np.float32, copy=False)

    def _round_lines(self, activations: Mapping[str, Measured], weights: Mapping[str, Measured]) -> Iterator[str]:
        yield csv_rows.ROUND_HEADER
        number = 0
        for use in self._uses:
            measured = weights[use.tensor] if use.is_weight else activations[use.written]
            for kind, statistics in (("Origin", measured.origin), ("Dequant", measured.dequantized)):
                flags = ("Output" if use.is_output else "Input", kind, "Weight" if use.is_weight else "Activation")
                yield csv_rows.row([str(number), *_names(use), *flags, *statistics])
                number += 1

    def _summary_lines(self, index: int, measured: Mapping[Pair, Measured]) -> Iterator[str]:
        cosines = {pair.written: m.cosine for pair, m in measured.items()}
        for name in self._output_names():
            yield csv_rows.row([str(index), csv_rows.name_field(name), csv_rows.number_field(cosines[name])])

    # -- parameters, finish -------------------------------------------------------------------------------------------

    def _write_params(self, path: Path, sizes: Mapping[str, tuple[int, ...]]) -> None:
        with _create(path) as stream:
            stream.write(csv_rows.QUANT_PARAM_HEADER)
            for use in self._uses:
                if use.params is not None:
                    stream.writelines(_param_lines(use, use.params, sizes[use.tensor]))

    def _commit(self, files: Transaction, names: list[str]) -> None:
        for name in names:
            files.add(files.work / name, self._folder / name)
        files.commit()
        for name in names:
            kind = "debug info" if name.startswith("round_") else "quant param"
            self._context.log.info(f"Success save {kind} to {self._folder / name}")
        left = sorted(path.name for path in self._folder.glob("round_*.csv") if path.name not in set(names))
        if left:
            self._context.log.warning(f"{self._folder}: {len(left)} round files are of an earlier run, e.g. {left[0]}")


def _create(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def _names(use: TensorUse) -> tuple[str, str, str]:
    return csv_rows.name_field(use.node), csv_rows.name_field(use.op_type), csv_rows.name_field(use.tensor)


def _param_lines(use: TensorUse, params: QuantParams, shape: tuple[int, ...]) -> Iterator[str]:
    """One line per scale. The correction columns are neutral, since corrections are in the biases."""
    before = [*_names(use), str(prod(shape)), csv_rows.dims_field(shape)]
    for scale, zero_point in zip(params.scale.reshape(-1), params.zero_point.reshape(-1), strict=True):
        grid = [csv_rows.number_field(float(scale)), str(int(zero_point)), str(params.spec.bits)]
        yield csv_rows.row([*before, *grid, *NO_CORRECTION])


def _measure(pair: Pair, origin: NDArray[Any], written: NDArray[Any]) -> Measured:
    return _compare(origin, dequantized(pair, written))


def _compare(origin: NDArray[Any], dequantized: NDArray[Any]) -> Measured:
    cosine = similarity(origin, dequantized)
    return Measured(
        csv_rows.statistics_fields(distribution(origin), clip=0.0, cosine=1.0),
        csv_rows.statistics_fields(distribution(dequantized), clip=clipped_share(origin, dequantized), cosine=cosine),
        cosine,
    )
