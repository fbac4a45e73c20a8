"""The reports of a conversion about its layers: which are wanted; measured once, then written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from converter_lite.config.settings import QuantizationConfig
from converter_lite.errors import UsageError
from converter_lite.pipeline.prove import Proof, Proven
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.pipeline.result import ConvertResult
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.reports.page.packages import INSTALL, missing_packages, missing_text, require_packages
from converter_lite.runtime.context import RunContext
from converter_lite.system.files import write_text

if TYPE_CHECKING:
    from converter_lite.data.remember import RememberingDataset
    from converter_lite.reports.page.content import FormatContent

PAGE = "report.html"
"""Name of the page beside the CSV files."""

COMMAND_LINE = "command line"
"""Section for settings that come from the command line."""


class Reporting:
    """Figures of a conversion's layers, for the page and for programs. What most runs do not need is imported where it is used.

    Args:
        request: Options.
        config: The configuration, ``None`` without one.
        context: Runs the graphs.

    Raises:
        UsageError: The page is asked for and cannot be made.
    """

    def __init__(self, request: ConvertRequest, config: QuantizationConfig | None, context: RunContext) -> None:
        self._request = request
        self._config = config
        self._context = context
        folder = None if config is None else config.common_quant_param.debug_info_save_path
        self._folder = None if folder is None else Path(folder)
        if request.report is not None:
            flag = f"--report={request.report}"
            require_packages(flag)
            if request.dry_run:
                raise UsageError("a dry run measures nothing", where=flag)
            if str(request.report).endswith("/"):
                raise UsageError("the path is a directory", where=flag, hint="add a file name")
        elif self._folder is not None and missing_packages() and not request.dry_run:
            missing = missing_text(missing_packages())
            context.log.info(f"{self._folder / PAGE} is left out: it needs {missing} ({INSTALL})")

    @property
    def measures(self) -> bool:
        """Whether errors are measured layer by layer."""
        return self._request.report is not None or self._folder is not None

    @property
    def page(self) -> list[Path]:
        """Where the page goes."""
        found = [] if self._request.report is None else [self._request.report]
        if self._folder is not None and not missing_packages():
            found.append(self._folder / PAGE)
        return found

    def refuse_float(self) -> None:
        """Refuse a page about a conversion without quantization, before any work.

        Raises:
            UsageError: It was asked for.
        """
        if self._request.report is not None:
            raise UsageError(
                "there is nothing to report without quantization",
                where=f"--report={self._request.report}",
                hint="name a configuration with quant_type",
            )

    def add(
        self,
        result: ConvertResult,
        name: str,
        quantized: QuantizedModel,
        original: ir.Model,
        dataset: RememberingDataset | None,
        proof: Proof,
    ) -> None:
        """Put the figures of one output format into the result.

        Args:
            result: What the conversion has so far.
            name: The format.
            quantized: What was written.
            original: The float graph of the format.
            dataset: Calibration samples; ``None`` measures on random ones.
            proof: Draws those.

        Raises:
            ModelError: The runtime refuses a graph or a sample.
        """
        if not quantized.plan.quantized_nodes or not (self.measures or self._request.json is not None):
            return
        from converter_lite.reports.layers import MEASURED_SAMPLES, describe, measure
        from converter_lite.reports.preview import SHOWN_SAMPLES, previews

        if not self.measures:
            result.figures[name] = describe(quantized, original)
            return
        with self._context.log.stage("layer report"):
            is_real = dataset is not None
            samples = proof.random(original, MEASURED_SAMPLES) if dataset is None else dataset.head(MEASURED_SAMPLES)
            result.figures[name] = measure(quantized, original, samples, is_real=is_real, context=self._context)
            if dataset is not None and not result.samples:
                result.samples = previews(samples[:SHOWN_SAMPLES])

    def write_debug(
        self, name: str, quantized: QuantizedModel, model: ir.Model, dataset: RememberingDataset | None, proof: Proof
    ) -> None:
        """The CSV files about the layers of one format, where they are asked for and something is quantized.

        Args:
            name: The format.
            quantized: What was written.
            model: The float graph as the format requires it.
            dataset: Calibration samples; ``None``: one random sample.
            proof: Draws it.
        """
        if self._folder is None or not quantized.plan.quantized_nodes:
            return
        from converter_lite.reports.debug_csv import DebugReport

        with self._context.log.stage("debug reports"):
            place = self._folder if len(set(self._request.save_type)) == 1 else self._folder / name
            report = DebugReport(place, quantized, context=self._context, reference=quantized.reference or model)
            report.write(proof.random(model, 1) if dataset is None else dataset)

    def write(self, result: ConvertResult, proven: Sequence[Proven], proof: Proof) -> None:
        """Write the page, even about files that the quality gate is going to refuse.

        Raises:
            ConverterError: It cannot be written.
        """
        result.configuration = self._configuration()
        shown = [item for item in proven if item.format.name in result.figures]
        if not self.page or not shown:
            return
        from converter_lite.pipeline.command_line import command_line
        from converter_lite.reports.page.content import PageContent, Section
        from converter_lite.reports.page.render import render

        refusal = proof.refusal(list(proven))
        with self._context.log.stage("page"):
            text = render(
                PageContent(
                    self._request.model_file.name,
                    result.model_bytes,
                    [replace(_format(item, result, proof), refusal=refusal and refusal[1]) for item in shown],
                    command_line(self._request),
                    [Section(title, tuple(entries.items())) for title, entries in result.configuration.items()],
                    result.samples,
                    list(self._context.log.warnings),
                    dict(self._context.log.seconds),
                    result.versions,
                )
            )
            for path in self.page:
                write_text(path, text)
                self._context.log.info(f"Success save report to {path}")

    def _configuration(self) -> dict[str, dict[str, str]]:
        """What was set: flags that differ from their defaults, and every key of the file."""
        from converter_lite.pipeline.command_line import IN_MEMORY, SECRETS, text_of

        given: dict[str, str] = {}
        for field in fields(ConvertRequest):
            value = getattr(self._request, field.name)
            if field.name not in (*IN_MEMORY, *SECRETS, "json") and value not in (field.default, None, {}, ()):
                given[field.name] = text_of(value)
        return {COMMAND_LINE: given, **({} if self._config is None else self._config.as_mapping())}


def _format(item: Proven, result: ConvertResult, proof: Proof) -> FormatContent:
    from converter_lite.reports.page.content import FormatContent

    return FormatContent(
        item.format.name,
        str(item.target),
        sum(path.stat().st_size for path in item.files),
        item.accuracy,
        proof.samples,
        proof.sample_kind,
        proof.limit(item.choice),
        result.figures[item.format.name],
    )
