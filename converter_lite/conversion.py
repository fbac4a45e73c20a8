"""The conversion, step by step: read, optimize, decide, calibrate, quantize, write, prove, put into place."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from converter_lite.config.settings import DataPreprocessParam, QuantizationConfig
from converter_lite.data.configured import configured_dataset
from converter_lite.data.dataset import Dataset
from converter_lite.data.inputs import input_specs
from converter_lite.data.iterables import IterableDataset
from converter_lite.data.layout import Layout
from converter_lite.data.random_samples import random_samples
from converter_lite.data.remember import RememberingDataset
from converter_lite.engine import DEFAULT_ENGINE, Engine, Feed, Session
from converter_lite.errors import ConfigError, ModelError, QualityError, UsageError
from converter_lite.formats.registry import OutputFormat, output_format
from converter_lite.frontends.ascend import apply_ascend_context, effective_context
from converter_lite.frontends.onnx import is_quantized, read_onnx
from converter_lite.log import Log
from converter_lite.output import Transaction, destination, refuse_overwrite, transaction
from converter_lite.passes.io_types import IoTypes, RealOutputs, change_io_types, feed_for
from converter_lite.passes.pipeline import optimize
from converter_lite.proof import compare
from converter_lite.quantization.choose import Choice, choose
from converter_lite.quantization.dynamic import decide_dynamic, quantize_dynamic
from converter_lite.quantization.forecast import forecast_bytes
from converter_lite.quantization.full import FullSettings, decide_full, quantize_full
from converter_lite.quantization.plan import QuantizedModel, QuantPlan, load_plans, save_plans
from converter_lite.quantization.weight_only import WeightSettings, decide_weights, quantize_weights
from converter_lite.reports.summary import peak_memory, versions
from converter_lite.request import (
    DEFAULT_MIN_COSINE,
    PROOF_SAMPLES,
    Artefact,
    ConvertRequest,
    ConvertResult,
    OutputAccuracy,
)


def run(request: ConvertRequest, log: Log, *, engine: Engine = DEFAULT_ENGINE) -> ConvertResult:
    """Convert a model as the request says. Nothing is written unless everything succeeds.

    Raises:
        ConverterError: A subclass that says what is wrong, where, and what to do.
    """
    return _Conversion(request, log, engine).run()


@dataclass(slots=True)
class _Written:
    """A file of the work directory and how it compares."""

    format: OutputFormat
    files: list[Path]
    target: Path
    accuracy: tuple[OutputAccuracy, ...]


class _Conversion:
    def __init__(self, request: ConvertRequest, log: Log, engine: Engine) -> None:
        self.request = request
        self.log = log
        self.engine = engine
        self.threads = request.threads or os.cpu_count() or 1
        self.formats = [output_format(name) for name in dict.fromkeys(request.save_type)]
        self.config = self._load_config()

    def run(self) -> ConvertResult:
        request, log = self.request, self.log
        targets = self._destinations()
        with log.stage("read"):
            model = read_onnx(request.model_file, input_shapes=self._static_shapes())
        self._refuse_quantized(model)
        result = ConvertResult(model_bytes=_model_bytes(request.model_file, model), versions=versions())
        with log.stage("optimize"):
            original = model.clone()
            done = optimize(model, level=request.optimize)
        result.nodes_read, result.nodes_optimized = done.nodes_before, done.nodes_after
        log.info(f"nodes: {done.nodes_before} read, {done.nodes_after} after optimization ({request.optimize})")
        for name, times in done.changes:
            log.debug(f"  {name}: {times}")
        for fmt in self.formats:
            fmt.check(model)
        choice = None
        if self.config is not None:
            has_samples = request.calibration_data is not None or self._data_section() is not None
            choice = choose(self.config, model, done.vanished, has_samples=has_samples)
        given_plans = self._read_plans(choice)
        if request.dry_run:
            return self._dry_run(model, choice, given_plans, result)
        dataset = self._open_data(model)
        with ExitStack() as stack:
            files = stack.enter_context(transaction(targets[0].parent))
            reference = self._reference(original, files)
            written = []
            for fmt, target in zip(self.formats, targets, strict=True):
                quantized = self._quantize(model.clone(), choice, dataset, given_plans.get(fmt.name), fmt)
                written.append(self._write(fmt, quantized, target, files, reference, dataset, model))
                if choice is not None:
                    result.plans[fmt.name] = quantized.plan
            self._gate(written, choice, real=dataset is not None)
            plans = self._stage_plans(stack, result)
            self._commit(written, files, result, real=dataset is not None, samples=self._proof_count(dataset))
            plans.commit()
        result.warnings = list(log.warnings)
        result.seconds = dict(log.seconds)
        result.peak_memory = peak_memory()
        return result

    # -- inputs ---------------------------------------------------------------------------------------------------

    def _load_config(self) -> QuantizationConfig | None:
        from converter_lite.config.parser import load_config

        request = self.request
        if request.config is not None:
            config = request.config
        elif request.config_file is None:
            return None
        else:
            config = load_config(request.config_file, external_data=request.calibration_data is not None)
        for warning in config.warnings:
            self.log.warning(warning)
        return config

    def _destinations(self) -> list[Path]:
        request = self.request
        targets = [destination(request.output_file, fmt.suffix) for fmt in self.formats]
        inputs = [request.model_file, *(p for p in (request.config_file, request.weight_file, request.plan) if p)]
        outputs = [*targets, *(p for p in (request.save_plan, request.json) if p)]
        for index, output in enumerate(outputs):
            refuse_overwrite(output, inputs, also=outputs[:index])
        if request.dry_run and request.save_plan is not None:
            raise UsageError("a dry run has no parameters to save", where=f"--savePlan={request.save_plan}")
        return targets

    def _static_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes to build into the graph; those that ``[ascend_context]`` calls dynamic serve the calibration only."""
        return {} if effective_context(self.config) is not None else dict(self.request.input_shape)

    def _refuse_quantized(self, model: ir.Model) -> None:
        if self.config is not None and self.config.common_quant_param.quant_type is not None and is_quantized(model):
            raise ModelError(
                "the model is quantized already",
                where=str(self.request.model_file),
                hint="start from the float model, or convert without a quantization section",
            )
        context = effective_context(self.config)
        if context is not None:
            apply_ascend_context(model, context, self.request.input_shape)

    def _read_plans(self, choice: Choice | None) -> dict[str, QuantPlan]:
        path = self.request.plan
        if choice is None and (path is not None or self.request.save_plan is not None):
            raise UsageError(
                "there is no plan without quantization",
                where=str(path or self.request.save_plan),
                hint="name a configuration with quant_type",
            )
        if path is None or choice is None:
            return {}
        plans = load_plans(path, [fmt.name for fmt in self.formats])
        for name, plan in plans.items():
            choice.check_plan(plan, where=f"{path}: {name}")
        return plans

    def _data_section(self) -> DataPreprocessParam | None:
        """The section that names calibration files, ``None`` if there is none."""
        data = self.config.data_preprocess_param if self.config is not None else None
        return data if data is not None and data.calibrate_path and data.input_type is not None else None

    def _open_data(self, model: ir.Model) -> RememberingDataset | None:
        request = self.request
        dataset: Dataset
        specs = input_specs(model, dict(request.input_shape))
        if request.calibration_data is not None:
            dataset = IterableDataset(request.calibration_data, specs, limit=request.calibration_size)
        else:
            data = self.config.data_preprocess_param if self.config is not None else None
            found = configured_dataset(
                data, specs, input_format=Layout(request.input_data_format), workers=min(self.threads, 4)
            )
            if found is None:
                return None
            dataset = found
        for note in dataset.notes:
            self.log.info(note)
        for warning in dataset.warnings:
            self.log.warning(warning)
        return RememberingDataset(dataset)

    # -- quantization ---------------------------------------------------------------------------------------------

    def _quantize(
        self,
        model: ir.Model,
        choice: Choice | None,
        dataset: RememberingDataset | None,
        plan: QuantPlan | None,
        fmt: OutputFormat,
    ) -> QuantizedModel:
        if choice is None:
            return QuantizedModel(model, QuantPlan("FLOAT"))
        settings = choice.settings
        if isinstance(settings, FullSettings):
            if dataset is None:
                raise ConfigError("FULL_QUANT needs calibration samples", hint="add [data_preprocess_param]")
            quantized = quantize_full(
                model,
                choice.target,
                settings,
                samples=dataset,
                plan=plan,
                engine=self.engine,
                threads=self.threads,
                log=self.log,
            )
        elif isinstance(settings, WeightSettings):
            quantized = quantize_weights(
                model,
                settings,
                target=choice.target.name,
                plan=plan,
                samples=dataset,
                engine=self.engine,
                threads=self.threads,
                log=self.log,
            )
        else:
            quantized = quantize_dynamic(model, settings, target=choice.target.name, plan=plan)
        self._report_plan(quantized.plan, fmt)
        _refuse_nothing(quantized.plan)
        return quantized

    def _report_plan(self, plan: QuantPlan, fmt: OutputFormat) -> None:
        counts = [f"{len(plan.quantized_nodes)} nodes quantized", f"{len(plan.nodes) - len(plan.quantized_nodes)} left"]
        self.log.info(f"{fmt.name}: " + ", ".join(counts))
        for reason, count in plan.float_reasons()[:5]:
            self.log.info(f"  {count} x {reason}")
        for name, node in plan.nodes.items():
            self.log.debug(f"  {name} ({node.op_type}): {node.mode.value}{' - ' + node.reason if node.reason else ''}")

    def _dry_run(
        self, model: ir.Model, choice: Choice | None, plans: dict[str, QuantPlan], result: ConvertResult
    ) -> ConvertResult:
        for fmt in self.formats:
            plan = plans.get(fmt.name) or decide(model, choice)
            if fmt.name in plans and choice is not None:
                choice.prepare(model)
                plan.check(model)
            result.forecast_bytes[fmt.name] = forecast_bytes(
                model,
                plan,
                bits=choice.settings.bits if choice is not None and isinstance(choice.settings, WeightSettings) else 8,
                per_channel=choice is not None and choice.is_per_channel,
                integer_bias=choice is not None and choice.target.quantize_bias,
            )
            if choice is not None:
                result.plans[fmt.name] = plan
                self._report_plan(plan, fmt)
                _refuse_nothing(plan)
        result.warnings = list(self.log.warnings)
        result.seconds = dict(self.log.seconds)
        result.peak_memory = peak_memory()
        return result

    # -- writing and proving --------------------------------------------------------------------------------------

    def _reference(self, original: ir.Model, files: Transaction) -> Session:
        """The float model as it was read (with fixed shapes), for the comparison."""
        from converter_lite.formats.onnx_qdq.writer import save

        path = files.work / "float.onnx"
        original.graph.opset_imports.setdefault("", 13)
        save(original, path)
        return self.engine.session(path, threads=self.threads)

    def _write(
        self,
        fmt: OutputFormat,
        quantized: QuantizedModel,
        target: Path,
        files: Transaction,
        reference: Session,
        dataset: RememberingDataset | None,
        model: ir.Model,
    ) -> _Written:
        request = self.request
        io_types = IoTypes(request.input_data_type, request.output_data_type)
        with self.log.stage("write"):
            made = fmt.write(quantized, files.work / target.name, io_types=io_types, fp16=request.fp16)
        with self.log.stage("prove"):
            runnable = fmt.runnable(made[0])
            session = self.engine.session(runnable, threads=self.threads)
            interface = self._changed_interface(quantized, io_types)
            if interface is not None:
                session = RealOutputs(session, interface)
            accuracy = compare(reference, session, self._proof_feeds(interface, dataset, model))
            if request.infer and dataset is not None:
                list(map(session.run, (pair[1] for pair in self._proof_feeds(interface, None, model))))
        folder = self.config.common_quant_param.debug_info_save_path if self.config is not None else None
        if folder is not None and quantized.plan.quantized_nodes:
            from converter_lite.reports.debug_csv import DebugReport

            with self.log.stage("debug reports"):
                place = Path(folder) if len(self.formats) == 1 else Path(folder) / fmt.name
                report = DebugReport(
                    place,
                    quantized,
                    engine=self.engine,
                    threads=self.threads,
                    log=self.log,
                    reference=quantized.reference or model,
                )
                shapes = dict(request.input_shape)
                report.write(dataset if dataset is not None else random_samples(model, 1, fixed_shapes=shapes))
        return _Written(fmt, made, target, accuracy)

    def _proof_feeds(
        self, interface: ir.Model | None, dataset: RememberingDataset | None, model: ir.Model
    ) -> Iterator[tuple[Feed, Feed]]:
        request = self.request
        feeds = (
            dataset.head(PROOF_SAMPLES)
            if dataset is not None
            else random_samples(model, PROOF_SAMPLES, fixed_shapes=dict(request.input_shape))
        )
        for feed in feeds:
            yield feed, feed if interface is None else feed_for(interface, feed)

    def _changed_interface(self, quantized: QuantizedModel, wanted: IoTypes) -> ir.Model | None:
        """The quantized graph with the wanted inputs and outputs, where they differ from those of the float model."""
        from converter_lite.formats.onnx_qdq.materialize import materialize

        if wanted == IoTypes():
            return None
        interface = materialize(quantized)
        change_io_types(interface, wanted)
        return interface

    def _proof_count(self, dataset: RememberingDataset | None) -> int:
        return min(PROOF_SAMPLES, len(dataset)) if dataset is not None else PROOF_SAMPLES

    def _gate(self, written: list[_Written], choice: Choice | None, *, real: bool) -> None:
        asked = self.request.min_cosine
        default = DEFAULT_MIN_COSINE if real and (choice is None or choice.is_gated) else 0.0
        limit = (default if asked is None else asked) or -math.inf
        for item in written:
            for output in item.accuracy:
                self.log.debug(f"{item.format.name} {output.name}: cosine {output.cosine:.6f}")
            worst = min(item.accuracy, key=lambda output: output.cosine, default=None)
            if worst is not None and worst.cosine < limit:
                raise QualityError(
                    f"cosine {worst.cosine:.5f} of output {worst.name} is below the quality gate {limit:g}",
                    where=str(item.target),
                    hint="see docs/accuracy.md for what helps; --minCosine=X changes the gate",
                )

    def _commit(
        self, written: list[_Written], files: Transaction, result: ConvertResult, *, real: bool, samples: int
    ) -> None:
        for item in written:
            for made in item.files:
                files.add(made, item.target.with_name(made.name))
            size = sum(made.stat().st_size for made in item.files)
            digest = _sha256(item.files)
            result.artefacts.append(Artefact(item.format.name, item.target, size, digest, item.accuracy, samples, real))
        files.commit()

    def _stage_plans(self, stack: ExitStack, result: ConvertResult) -> Transaction:
        """The plan file, ready to be put into place behind the models."""
        path = self.request.save_plan
        if path is None:
            return Transaction(Path())
        files = stack.enter_context(transaction(path.parent))
        made = files.work / path.name
        made.write_text(save_plans(result.plans), encoding="utf-8", newline="\n")
        files.add(made, path)
        return files


def decide(model: ir.Model, choice: Choice | None) -> QuantPlan:
    """Node decisions without parameters, for a forecast."""
    if choice is None:
        return QuantPlan("FLOAT")
    settings = choice.settings
    if isinstance(settings, FullSettings):
        return decide_full(model, choice.target, settings)
    if isinstance(settings, WeightSettings):
        return decide_weights(model, settings, target=choice.target.name)
    return decide_dynamic(model, settings, target=choice.target.name)


def _refuse_nothing(plan: QuantPlan) -> None:
    if plan.quantized_nodes:
        return
    reasons = "; ".join(f"{count} x {reason}" for reason, count in plan.float_reasons()[:4])
    raise QualityError(
        f"nothing would be quantized: {reasons}",
        hint="choose another quant_type or target_device, or lower min_quant_weight_size and min_quant_weight_channel",
    )


def _model_bytes(path: Path, model: ir.Model) -> int:
    external = {
        tensor.path
        for value in model.graph.initializers.values()
        if isinstance(tensor := value.const_value, ir.ExternalTensor)
    }
    return path.stat().st_size + sum(Path(p).stat().st_size for p in external)


def _sha256(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
