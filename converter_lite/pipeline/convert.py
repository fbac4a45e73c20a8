"""The conversion, step by step: read, optimize, decide, calibrate, quantize, write, prove, put into place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from converter_lite.calibration.context import CalibrationContext
from converter_lite.data import proof_data
from converter_lite.data.random_samples import random_samples, with_pictures
from converter_lite.errors import QualityError, UsageError
from converter_lite.formats.base import FileOptions, OutputFormat
from converter_lite.formats.registry import output_format, weight_files_beside
from converter_lite.formats.source import Source
from converter_lite.log import Log
from converter_lite.passes.io_types import IoTypes
from converter_lite.passes.pipeline import OptimizeResult
from converter_lite.passes.widening import computes_in_halves
from converter_lite.pipeline import learning
from converter_lite.pipeline.admission import admitted
from converter_lite.pipeline.artefacts import add_artefacts
from converter_lite.pipeline.ascend_context import effective_context
from converter_lite.pipeline.calibrate import calibration_executor, statistics_cache
from converter_lite.pipeline.input_check import InputCheck, Settle
from converter_lite.pipeline.plan_lines import SHOWN, refuse_nothing, report_plan
from converter_lite.pipeline.prepare import Preparation, Prepared
from converter_lite.pipeline.prove import Proof, Proven, check_operators
from converter_lite.pipeline.read import read_config, read_source
from converter_lite.pipeline.report import Reporting
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.pipeline.result import ConvertResult, rejected_to_json
from converter_lite.pipeline.rewrites import advised, chosen_rewrites
from converter_lite.pipeline.samples import (
    check_folders,
    check_inputs_exist,
    names_files,
    open_proof_samples,
    open_samples,
)
from converter_lite.pipeline.second_choice import second_choice
from converter_lite.quantization.choice import Choice, choose
from converter_lite.quantization.plan import QuantizedModel, QuantPlan, load_plans, save_plans
from converter_lite.quantization.quantizer import Resources, decide, quantize
from converter_lite.quantization.settings import FullSettings
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine, Feed
from converter_lite.system.files import Transaction, destinations, refuse_overwrites, stage_text, transaction
from converter_lite.system.interruptions import interruptions_come_too_late
from converter_lite.system.memory import MemoryWatch, peak_resident, rare_collections

if TYPE_CHECKING:
    from converter_lite.data.remember import RememberingDataset

_Text = Callable[[ConvertResult], str]
_Other = tuple[Path, Transaction, _Text]
"""A file that describes a finished conversion: its path, the transaction of its folder, its content."""


Train = Callable[[QuantizedModel], QuantizedModel]
"""What is done with a quantized network before it is written."""

Check = Callable[[ir.Model], None]
"""Refuses a float graph before a sample is read."""


def run(
    request: ConvertRequest,
    log: Log,
    *,
    engine: Engine = DEFAULT_ENGINE,
    train: Train | None = None,
    check: Check | None = None,
) -> ConvertResult:
    """Convert a model as the request says. Nothing is written unless everything succeeds.

    Args:
        request: What to convert.
        log: Receives messages.
        engine: Runs models.
        train: Changes what is quantized before it is written.
        check: Raises for a graph that ``train`` could not take.

    Raises:
        ConverterError: A subclass that says what is wrong, where, and what to do.
    """
    with ExitStack() as end, MemoryWatch() as memory:
        return _Conversion(request, log, engine, memory, train, check).run(end)


def quantized_network(request: ConvertRequest, log: Log, *, check: Check | None = None) -> QuantizedModel:
    """What the first output format of a request would be written from; nothing is written. Arguments as of :func:`run`.

    Raises:
        ConverterError: A subclass that says what is wrong, where, and what to do.
    """
    with MemoryWatch() as memory:
        return _Conversion(request, log, DEFAULT_ENGINE, memory, check=check).quantized()


@dataclass(slots=True)
class _Job:
    """One output format of a conversion.

    Attributes:
        format: The format.
        target: Path of its file.
        prepared: The graph as the format requires it.
        choice: How to quantize, ``None`` for a float conversion.
        plan: A plan that the user gave.
    """

    format: OutputFormat
    target: Path
    prepared: Prepared
    choice: Choice | None = None
    plan: QuantPlan | None = None


class _Conversion:
    def __init__(
        self,
        request: ConvertRequest,
        log: Log,
        engine: Engine,
        memory: MemoryWatch,
        train: Train | None = None,
        check: Check | None = None,
    ) -> None:
        self.request = request
        self.train, self.check = train, check
        self.log = log
        self.memory = memory
        self.context = RunContext(engine, request.threads or os.cpu_count() or 1, log)
        self.config = read_config(request, log, trains=train is not None)
        self.reporting = Reporting(request, self.config, self.context)
        self.plans: dict[str, QuantPlan] = {}
        self.outputs: tuple[Path | None, ...] = ()
        self.options = FileOptions(
            io_types=IoTypes(request.input_data_type, request.output_data_type),
            fp16=request.fp16,
            flags=request,
            config=self.config,
            key=bytes.fromhex(request.encrypt_key),
            source=request.model_file,
        )
        self.formats = self._formats()

    def run(self, end: ExitStack) -> ConvertResult:
        """Convert; interruptions are dropped from the first file that is put into place until ``end`` is closed."""
        targets, result = self._destinations(), ConvertResult(model_bytes=0)
        for sentence in self.request.without_effect(self.config):
            self.log.warning(sentence)
        source, jobs, dataset = self._begin(targets, result)
        request = self.request
        given = open_proof_samples(request, _static(jobs), self.context)
        if request.dry_run:
            check_operators(source.model, self.context)
            return self._dry_run(jobs, result)
        with ExitStack() as stack:
            stack.enter_context(rare_collections(wanted=jobs[0].prepared.is_all_nodes))
            settle = self._check_inputs(jobs, dataset)
            resources = self._resources(jobs, dataset, stack, settle)
            files = stack.enter_context(transaction(targets[0].parent))
            others = self._open_others(stack)
            proof = Proof(source.model, request=request, dataset=given or dataset, context=self.context)
            proven = []
            for job in jobs:
                quantized, written = self._written_network(job, resources, files.work, proof)
                proven.append(written)
                self.reporting.write_debug(job.format.name, quantized, job.prepared.model, dataset, proof)
                self.reporting.add(result, job.format.name, quantized, job.prepared.model, dataset, proof)
                if job.choice is not None or quantized.plan.quantized_nodes:
                    result.plans[job.format.name] = quantized.plan
            settle()
            self.reporting.write(result, proven, proof)
            add_artefacts(proven, files, result, proof)
            self._finished(result)
            try:
                proof.gate(proven, self.log)
            except QualityError as error:
                error.details = {**rejected_to_json(result), **error.details}
                raise
            staged = [stage_text(folder, path, text(result)) for path, folder, text in others]
            end.enter_context(interruptions_come_too_late())
            for each in (files, *staged):
                each.commit()
        return result

    def quantized(self) -> QuantizedModel:
        """The network of the first format."""
        _, jobs, dataset = self._begin(self._destinations(), ConvertResult(model_bytes=0))
        settle = self._check_inputs(jobs, dataset)
        with ExitStack() as stack:
            quantized = self._quantize(jobs[0], self._resources(jobs, dataset, stack, settle))
        settle()
        return quantized

    @property
    def _quantizes(self) -> bool:
        return self.config is not None and self.config.common_quant_param.quant_type is not None

    def _formats(self) -> list[OutputFormat]:
        return [output_format(name, self.options) for name in self.request.save_type]

    def _begin(
        self, targets: list[Path], result: ConvertResult
    ) -> tuple[Source, list[_Job], RememberingDataset | None]:
        """The model, its graph for each format, and the calibration samples; all that can be refused early is."""
        self._check_files(targets)
        with self.log.stage("read"):
            source = read_source(self.request, static_shapes=self._static_shapes())
        refuse_overwrites(self.outputs, source.beside)
        source, self.config = admitted(source, self.request, self.config, self.log)
        request = self._forget_constants(source)
        if request.calibration_data is None:
            check_inputs_exist(self.config, source.model)
        result.model_bytes = source.bytes
        halves = self._quantizes and computes_in_halves(source.model, frozenset({ir.DataType.FLOAT16}))
        self.options = replace(self.options, halves=halves, model_bytes=source.bytes)
        self.formats = self._formats()
        jobs = self._prepare(source, targets, result)
        self._choose(jobs)
        return source, jobs, open_samples(request, self.config, _static(jobs), self.context)

    def _resources(
        self, jobs: list[_Job], dataset: RememberingDataset | None, stack: ExitStack, settle: Settle
    ) -> Resources:
        """What quantizations work with; ``stack`` ends it."""
        context = CalibrationContext(
            self.context.engine,
            self.context.threads,
            self.log,
            cache=statistics_cache(self.request, dataset, self.log, formats=len(self.formats)),
            executor=calibration_executor(
                self.request, stack, self.log, observes=any(_is_full(job) and job.plan is None for job in jobs)
            ),
            begins=settle,
        )
        learn = None if dataset is None else partial(learning.learn, dataset, self.context)
        return Resources(dataset, context, self._random_feeds, learn)

    def _finished(self, result: ConvertResult) -> None:
        result.warnings = list(self.log.warnings)
        result.seconds = dict(self.log.seconds)
        result.peak_memory, result.peak_resident = self.memory.peak(), peak_resident()

    # -- inputs ---------------------------------------------------------------------------------------------------

    def _destinations(self) -> list[Path]:
        request = self.request
        targets = destinations(request.output_file, [fmt.suffix for fmt in self.formats])
        weights = [request.weight_file] if request.weight_file else weight_files_beside(request.model_file, request.fmk)
        inputs = (request.model_file, request.config_file, *weights, request.plan, request.proof_data)
        beside = [path.with_suffix(end) for fmt, path in zip(self.formats, targets, strict=True) for end in fmt.beside]
        self.outputs = (*targets, *beside, request.save_plan, request.json, request.report)
        refuse_overwrites(self.outputs, inputs)
        if request.dry_run and request.save_plan is not None:
            raise UsageError("a dry run has no parameters to save", where=f"--savePlan={request.save_plan}")
        return targets

    def _written(self, targets: list[Path]) -> list[tuple[str, Path | None]]:
        """Flag or key, and path, of all that is going to be written."""
        request = self.request
        debug = self.config.common_quant_param.debug_info_save_path if self.config is not None else None
        return [
            *(("--outputFile", path) for path in targets),
            ("--savePlan", request.save_plan),
            ("--json", request.json),
            ("--report", request.report),
            ("--preview", request.preview),
            ("--cache", request.cache),
            ("[common_quant_param] debug_info_save_path", Path(debug) if debug else None),
        ]

    def _check_files(self, targets: list[Path]) -> None:
        """What is known of the other files of a request before the model is read."""
        request = self.request
        if request.calibration_data is None:
            check_folders(self.config, self._written(targets), confined=not request.allow_external_paths)
        if request.plan is not None:
            self.plans = load_plans(request.plan, [fmt.name for fmt in self.formats])
        if request.proof_data is not None:
            proof_data.check_proof_data(request.proof_data, self._written(targets))

    def _static_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes to build into the graph; those that ``[ascend_context]`` calls dynamic are for the calibration only."""
        return {} if effective_context(self.config) is not None else dict(self.request.input_shape)

    def _forget_constants(self, source: Source) -> ConvertRequest:
        """The request without shapes of inputs that are constants by now: given ones, or whole numbers of a TorchScript."""
        inputs = {str(value.name) for value in source.model.graph.inputs}
        if self._static_shapes().keys() - inputs:  # the reader refused unknown names
            shapes = {name: shape for name, shape in self.request.input_shape.items() if name in inputs}
            self.request = replace(self.request, input_shape=shapes)
            self.reporting = Reporting(self.request, self.config, self.context)
        return self.request

    def _check_inputs(self, jobs: list[_Job], dataset: RememberingDataset | None) -> Settle:
        """Begin to look for doubts about the prepared samples."""
        chosen = [job for job in jobs if job.choice is not None] or jobs[: self.request.preview is not None]
        model = chosen[0].prepared.model if chosen else None
        check = InputCheck(self.request, self.config, self.context)
        return check.begin(model, dataset, is_full=any(map(_is_full, chosen[:1])))

    # -- decisions ------------------------------------------------------------------------------------------------

    def _prepare(self, source: Source, targets: list[Path], result: ConvertResult) -> list[_Job]:
        """The graph of each format, checked before any other work."""
        rewrites = chosen_rewrites(self.request.optimize, self.config, self.log)
        preparation = Preparation(source, rewrites)
        jobs: list[_Job] = []
        for fmt, target in zip(self.formats, targets, strict=True):
            with self.log.stage("optimize"):
                prepared = preparation(fmt.requirements.of_quantized() if self._quantizes else fmt.requirements)
            if all(job.prepared is not prepared for job in jobs):
                self._report_graph(prepared, rewrites.level, said=[job.prepared.done for job in jobs])
            with self.log.stage("check"), advised(rewrites):
                fmt.check(prepared.model)
            jobs.append(_Job(fmt, target, prepared))
        done = jobs[0].prepared.done
        result.nodes_read, result.nodes_optimized = done.nodes_before, done.nodes_after
        return jobs

    def _report_graph(self, prepared: Prepared, level: str, *, said: list[OptimizeResult]) -> None:
        done = prepared.done
        level += "" if level in ("none", "general") else ": for every device the rules of general"
        if (done.nodes_before, done.nodes_after) not in [(other.nodes_before, other.nodes_after) for other in said]:
            self.log.info(f"nodes: {done.nodes_before} read, {done.nodes_after} after optimization ({level})")
        for note in prepared.notes:
            self.log.info(note)
        if prepared.random is not None and not said:
            where = f"{prepared.random.op_type} (node {prepared.random.name})"
            self.log.warning(f"{where} is not deterministic: comparisons count its differences as errors")
        for name, times in done.changes:
            self.log.debug(f"  {name}: {times}")

    def _choose(self, jobs: list[_Job]) -> None:
        """How to quantize for each format, and the plans that the user gave."""
        request, config = self.request, self.config
        if config is not None:
            has_samples = request.calibration_data is not None or names_files(config)
            for job in jobs:
                choice = choose(config, job.prepared.model, job.prepared.done.vanished, has_samples=has_samples)
                job.choice = None if choice is None else job.format.restrict(choice, job.prepared.model)
                if job.choice is not None and job.choice.learning is not None:
                    note = learning.check(job.prepared.model)
                    if note is not None:
                        self.log.info(note)
                if self.check is not None:
                    self.check(job.prepared.model)
                for note in () if job.choice is None else job.choice.said(planned=request.plan is not None):
                    self.log.warning(note)
        path = request.plan
        chosen = [job for job in jobs if job.choice is not None]
        if not chosen and (path is not None or request.save_plan is not None):
            raise UsageError(
                "there is no plan without quantization",
                where=str(path or request.save_plan),
                hint="name a configuration with quant_type",
            )
        if not chosen and not any(job.prepared.quantized.plan.quantized_nodes for job in jobs):
            self.reporting.refuse_float()
        if path is None:
            return
        for job in chosen:
            plan = self.plans[job.format.name]
            assert job.choice is not None
            usual = decide(job.prepared.copy().model, job.choice)
            job.choice.check_plan(plan, usual=usual, where=f"{path}: {job.format.name}")
            job.plan = replace(plan, ends=plan.ends | usual.ends)

    def _report_plan(self, plan: QuantPlan, job: _Job) -> None:
        settings = job.choice.settings if job.choice is not None else None
        report_plan(plan, job.format.name, job.prepared.model, settings, self.log)

    def _dry_run(self, jobs: list[_Job], result: ConvertResult) -> ConvertResult:
        for job in jobs:
            model, choice = job.prepared.model, job.choice
            if choice is None:
                plan = job.prepared.quantized.plan
            elif job.plan is not None:
                plan = job.plan
                choice.prepare(model)
                plan.check(model)
            else:
                plan = decide(model, choice)
            if choice is not None:
                result.plans[job.format.name] = plan
                self._report_plan(plan, job)
                refuse_nothing(plan)
            result.forecast_bytes[job.format.name] = self._forecast(job, plan)
            if choice is not None and choice.chooses_widths and job.plan is None:
                self.log.info(
                    f"{job.format.name}: widths are not chosen in a dry run; its size is the largest possible"
                )
        with ExitStack() as stack:
            others = self._open_others(stack)
            self._finished(result)
            for path, folder, text in others:
                stage_text(folder, path, text(result)).commit()
        return result

    def _forecast(self, job: _Job, plan: QuantPlan) -> int:
        copy = job.prepared.copy()
        if job.choice is None:
            return job.format.forecast(job.format.adapt(copy) if plan.quantized_nodes else copy, None)
        job.choice.prepare(copy.model)
        return job.format.forecast(QuantizedModel(copy.model, plan), job.choice)

    # -- work -----------------------------------------------------------------------------------------------------

    def _written_network(
        self, job: _Job, resources: Resources, work: Path, proof: Proof
    ) -> tuple[QuantizedModel, Proven]:
        """A network and its file; a second one where the first missed a gate that nobody asked for."""
        with proof.blaming_the_model():
            quantized = self._finished_network(job, resources)
        written = self._write(job, quantized, work, proof)
        is_decided = self.request.min_cosine is not None or job.plan is not None or self.train is not None
        choice = (
            None
            if is_decided or proof.is_large
            else second_choice(proof.missed(written), job.choice, quantized, self.log)
        )
        if choice is None:
            return quantized, written
        again = replace(job, choice=choice)
        quantized = self._finished_network(again, resources)
        return quantized, self._write(again, quantized, work, proof)

    def _finished_network(self, job: _Job, resources: Resources) -> QuantizedModel:
        quantized = self._quantize(job, resources)
        if self.train is None:
            return quantized
        with self.log.stage("training"):
            return self.train(quantized)

    def _quantize(self, job: _Job, resources: Resources) -> QuantizedModel:
        copy = job.prepared.copy()
        if job.choice is None:
            if not copy.plan.holds_integers:
                return copy
            adapted = job.format.adapt(copy, log=self.log)
            self._report_plan(adapted.plan, job)
            return adapted
        quantized = quantize(copy.model, job.choice, plan=job.plan, resources=resources)
        self._report_plan(quantized.plan, job)
        if self.request.quantize_if_possible and not quantized.plan.quantized_nodes:
            reasons = "; ".join(f"{count} x {reason}" for reason, count in quantized.plan.float_reasons()[:SHOWN])
            self.log.warning(f"no weight was quantized: {reasons}")
        else:
            refuse_nothing(quantized.plan)
        return quantized

    def _random_feeds(self, model: ir.Model, count: int) -> list[Feed]:
        """Random samples of the right types; pictures on request."""
        drawn = random_samples(model, count, fixed_shapes=dict(self.request.input_shape))
        wants_pictures = self.config is not None and self.config.mixed_bit_weight_quant_param.use_cv_data
        return list(with_pictures(drawn) if wants_pictures else drawn)

    def _write(self, job: _Job, quantized: QuantizedModel, work: Path, proof: Proof) -> Proven:
        with self.log.stage("write"):
            made = job.format.write(quantized, work / job.target.name, log=self.log)
        for index, note in enumerate(made.notes):
            say = self.log.info if index < SHOWN else self.log.debug
            say(f"{job.format.name}: {note}")
        if len(made.notes) > SHOWN:
            self.log.info(f"{job.format.name}: and {len(made.notes) - SHOWN} notes more (-v prints them)")
        with self.log.stage("prove"):
            accuracy = proof.compare(job.format, made.files[0], quantized, job.prepared.model)
            speed = proof.time(job.format, made.files[0], quantized, job.prepared.model)
        return Proven(job.format, made.files, job.target, accuracy, job.choice, speed)

    def _open_others(self, stack: ExitStack) -> list[_Other]:
        """The plan file and the JSON result, opened before the work so that a path that cannot be written fails early."""
        wanted: tuple[tuple[Path | None, _Text], ...] = (
            (self.request.save_plan, lambda result: save_plans(result.plans)),
            (self.request.json, lambda result: json.dumps(result.to_json(), indent=1) + "\n"),
        )
        return [
            (path, stack.enter_context(transaction(path.parent)), text) for path, text in wanted if path is not None
        ]


def _static(jobs: list[_Job]) -> ir.Model:
    """A graph with all shapes that any format fixes."""
    return next((job for job in jobs if job.format.requirements.static), jobs[0]).prepared.model


def _is_full(job: _Job) -> bool:
    return job.choice is not None and isinstance(job.choice.settings, FullSettings)
