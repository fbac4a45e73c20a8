"""The proof of a written file: read back, run, and compared with the float model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.config.names import TargetDevice
from converter_lite.data.open_sizes import OpenSizes, other_sizes
from converter_lite.data.random_samples import RandomDataset, random_samples
from converter_lite.errors import ConverterError, DataError, ModelError, QualityError
from converter_lite.formats.base import OutputFormat
from converter_lite.log import Log, shown_below
from converter_lite.passes.input_values import HINT as BRANCHES
from converter_lite.passes.io_types import IoTypes, RealOutputs, change_io_types, feed_for
from converter_lite.passes.shapes import infer_shapes
from converter_lite.pipeline.accuracy import compare
from converter_lite.pipeline.remedies import remedies
from converter_lite.pipeline.request import DEFAULT_MIN_COSINE, LARGE_PROOF_SAMPLES, ConvertRequest
from converter_lite.pipeline.result import accuracy_to_json, speed_to_json
from converter_lite.pipeline.speed import Speed, compare_speed, loads_slowly, slow_kinds
from converter_lite.pipeline.summary import accuracy_lines
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.detections import detection_thresholds
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.reports.accuracy import OutputAccuracy
from converter_lite.runtime.blocks import BlockSession, is_larger_than_memory
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed, Session, profile
from converter_lite.runtime.serializing import constant_bytes, message, open_file, open_session

LARGE_MODEL = 32 << 20
"""Bytes of constants from which the float model is loaded only for the proof."""

PROFILED = 3
"""Runs of a profile; the fastest of each kernel counts."""

OTHER_DEVICES = frozenset(str(device.value) for device in TargetDevice) - {"CPU", "X86"}
"""Devices for which a time on this processor says nothing."""

INTEGER_OPERATORS = frozenset(
    {
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("QLinearConv", "ConvInteger", "QLinearMatMul", "MatMulInteger"),
    }
)
"""Standard operators whose exact results may come from other kernels than those that users run."""

NO_SAMPLES = (
    "the samples are random, and not every model runs on those: give samples that it runs on with --proofData=FILE.npz"
)
"""What to do where a model does not run on them."""

HALF = "float16 holds numbers up to 65504: leave --fp16 and --nbFp16 off, or scale what is larger"
"""What to do where a file gives NaN in it."""

FIXED_SIZES = f"it may not allow the sizes of --inputShape; {BRANCHES}"
"""What to do where a runtime does not load a model whose shapes are given."""

OTHER_TYPE = "onnxruntime computes this operator with other element types only: export the model in float32"
"""What to do where a runtime has no kernel for a node."""

if TYPE_CHECKING:
    from converter_lite.data.remember import RememberingDataset


@dataclass(frozen=True, slots=True)
class Proven:
    """A file of the work directory and how it compares."""

    format: OutputFormat
    files: list[Path]
    target: Path
    accuracy: tuple[OutputAccuracy, ...]
    choice: Choice | None
    speed: Speed | None = None


@dataclass(frozen=True, slots=True)
class Missed:
    """An output whose mean cosine is below the quality gate."""

    output: str
    cosine: float
    gate: float

    def __str__(self) -> str:
        return f"cosine {shown_below(self.cosine, self.gate)} of output {self.output} is below the quality gate {self.gate:.15g}"


class Proof:
    """Compares written files with the model that was read.

    Args:
        original: The model as it was read.
        request: Options of the conversion.
        dataset: Samples of the user, for the proof or the calibration; ``None`` compares on random ones.
        context: Runs both.
    """

    def __init__(
        self,
        original: ir.Model,
        *,
        request: ConvertRequest,
        dataset: RememberingDataset | None,
        context: RunContext,
    ) -> None:
        original.graph.opset_imports.setdefault("", 13)
        self._original = original
        self._is_large = is_larger_than_memory(original)
        self._reference: Session | None = None
        self._open_axes, self._thresholds = _open_axes(original), detection_thresholds(original)
        self._request = request
        self._dataset = dataset
        self._context = context
        self._said: set[str] = set()
        self._side_by_side = 1 if self._is_large else max(min(context.threads, self.samples), 1)
        self._threads = max(context.threads // self._side_by_side, 1)
        if constant_bytes(original) < LARGE_MODEL or _foreign(original):
            self._open_reference()

    @contextmanager
    def blaming_the_model(self) -> Iterator[None]:
        """Work on a model; if it fails because the runtime cannot load the model at all, that error is raised instead.

        Raises:
            ModelError: The runtime cannot load the model.
        """
        try:
            yield
        except ConverterError:
            raise
        except Exception:
            self._open_reference()
            raise

    def _open_reference(self) -> Session:
        """The float model; a large one is loaded only now, since it takes as much memory as all work before the proof."""
        if self._reference is None:
            hint = FIXED_SIZES if self._request.input_shape else ""
            self._reference = _reference(self._original, self._context, self._threads, hint=hint)
        return self._reference

    @property
    def samples(self) -> int:
        """Number of samples that are compared."""
        wanted = LARGE_PROOF_SAMPLES if self._is_large else self._request.proof_samples
        return min(wanted, len(self._dataset)) if self._dataset is not None else wanted

    @property
    def is_large(self) -> bool:
        """Whether the model is run in blocks, because memory does not hold it."""
        return self._is_large

    @property
    def is_real(self) -> bool:
        """Whether they are samples of the user."""
        return self._dataset is not None

    @property
    def sample_kind(self) -> str:
        """What they are: ``calibration``, ``proof`` or ``random`` samples."""
        return "random" if not self.is_real else "calibration" if self._request.proof_data is None else "proof"

    def compare(
        self, fmt: OutputFormat, file: Path, quantized: QuantizedModel, model: ir.Model
    ) -> tuple[OutputAccuracy, ...]:
        """Read a file back and run it beside the original.

        Args:
            fmt: Its format.
            file: The file.
            quantized: What was written.
            model: The float graph as the format requires it.

        Raises:
            FormatError: The file is not valid.
            ModelError: One of the models does not run on a sample.
            QualityError: The file gives NaN or different shapes.
        """
        session = self._session(fmt.runnable(file, like=model))
        reference = self._open_reference()
        interface = _changed_interface(quantized, fmt.io_types)
        if interface is not None:
            session = RealOutputs(session, interface)
        feeds = self._feeds(interface, self._dataset, model, quantized.plan)
        tracked = self._context.log.track(feeds, "proving", self.samples)
        try:
            accuracy = compare(
                reference,
                session,
                tracked,
                open_axes=self._open_axes,
                thresholds=self._thresholds,
                threads=self._side_by_side,
            )
        except ModelError as error:
            if self.is_real:
                raise
            raise ModelError(error.message, where=error.where, hint=NO_SAMPLES) from error
        except QualityError as error:
            if self._request.fp16 or self._request.nb_fp16:
                error.hint = HALF
            raise
        if self._request.infer and self._dataset is not None:
            self._context.log.info(f"{file.name}: run on random data too, as --infer asks")
            for _, feed in self._feeds(interface, None, model, quantized.plan):
                session.run(feed)
        return accuracy

    def time(self, fmt: OutputFormat, file: Path, quantized: QuantizedModel, model: ir.Model) -> Speed | None:
        """How fast a file with integers is beside the float model, as users load both; a slower one is a warning.

        Args:
            fmt: Its format.
            file: The file.
            quantized: What was written.
            model: The float graph as the format requires it.

        Returns:
            ``None`` where that is not measured.
        """
        asked = self._request.min_speedup is not None
        if not fmt.is_timed or self._is_large:
            if asked and fmt.is_timed:
                gate = f"--minSpeedup={self._request.min_speedup}"
                self._context.log.warning(
                    f"{gate} has no effect: a model of this size runs in blocks, which are not timed"
                )
            return None
        if not asked and (not quantized.plan.quantized_nodes or loads_slowly(self._original)):
            return None
        if not asked and quantized.plan.target in OTHER_DEVICES:
            return None
        interface = _changed_interface(quantized, fmt.io_types)
        feeds = next(self._feeds(interface, self._dataset, model, quantized.plan))
        written = self._context.engine.session(file, threads=1, exact=False)
        speed = compare_speed(self._as_loaded(), written, feeds, until_clear=not asked)
        if speed.is_slower:
            source = message(self._original)
            before = profile(source.content, [feeds[0]] * PROFILED, tensors=source.tensors)
            kinds = slow_kinds(before, profile(file, [feeds[1]] * PROFILED))
            self._context.log.warning(
                f"{fmt.name}: {speed.file_ms:.3g} ms a sample, slower than the float model ({speed.float_ms:.3g} ms): {kinds}"
            )
        return speed

    def _as_loaded(self) -> Session:
        """The float model in one thread, with the kernels that users run."""
        if self._threads == 1 and self._reference is not None and _is_of_floats(self._original):
            return self._reference
        return message(self._original).session(self._context.engine, threads=1)

    def _session(self, runnable: bytes | Path) -> Session:
        if self._is_large and isinstance(runnable, Path):
            return _in_blocks(ir.load(runnable), self._context)
        return open_file(self._context.engine, runnable, threads=self._threads)

    def _feeds(
        self, interface: ir.Model | None, dataset: RememberingDataset | None, model: ir.Model, plan: QuantPlan
    ) -> Iterator[tuple[Feed, Feed]]:
        shapes = dict(self._request.input_shape)
        if dataset is not None:
            feeds = dataset.head(self.samples)
        else:
            feeds = [_within(plan, feed) for feed in self._runnable(model, shapes)]
        for feed in feeds:
            yield feed, feed if interface is None else feed_for(interface, feed)

    def random(self, model: ir.Model, count: int) -> list[Feed]:
        """So many random samples of the proof, or all of them.

        Raises:
            ModelError: The float model runs on none.
        """
        return list(islice(self._runnable(model, dict(self._request.input_shape)), count))

    def _runnable(self, model: ir.Model, shapes: Mapping[str, tuple[int, ...]]) -> RandomDataset:
        """Random samples whose open lengths the float model runs on.

        Raises:
            ModelError: It runs on none of them; that of the usual length is given.
        """
        found = usual = random_samples(model, self.samples, fixed_shapes=shapes)
        shifted = random_samples(model, 1, fixed_shapes=shapes, sizes=OpenSizes(length=1, side=1, states=True))
        is_open = [draw.shape for draw in usual.draws] != [draw.shape for draw in shifted.draws]
        if is_open and not self._is_large and not self._runs(usual):
            found = next(filter(self._runs, self._drawn(model, shapes)), usual)
        for note in found.notes:
            if note not in self._said:
                self._said.add(note)
                self._context.log.info(note)
        return found

    def _drawn(self, model: ir.Model, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[RandomDataset]:
        """Random samples of other sizes than the usual ones, but for those that would be too large."""
        for sizes in other_sizes(model):
            with suppress(DataError):
                yield random_samples(model, self.samples, fixed_shapes=shapes, sizes=sizes)

    def _runs(self, samples: RandomDataset) -> bool:
        try:
            self._open_reference().run(next(iter(samples)))
        except ModelError:
            return False
        return True

    def gate(self, proven: list[Proven], log: Log) -> None:
        """Refuse files that are too far from the original, or too slow.

        Raises:
            QualityError: A mean cosine, or a speed, is below its gate.
        """
        refusal = self.refusal(proven)
        if refusal is None:
            return
        item, error = refusal
        if self.missed(item) is not None:
            log.info(f"{item.target}: below the quality gate")
            for line in accuracy_lines(item.accuracy, samples=self.samples, kind=self.sample_kind):
                log.info(line)
        raise error

    def refusal(self, proven: list[Proven]) -> tuple[Proven, QualityError] | None:
        """The first file that misses a gate, and the error that says so: no file is kept then."""
        asked = self._request.min_speedup
        for item in proven:
            missed = self.missed(item)
            if missed is not None:
                return item, QualityError(
                    str(missed),
                    where=str(item.target),
                    hint=remedies(item.choice, is_real=self.is_real),
                    details={"accuracy": accuracy_to_json(item.accuracy)},
                )
            if asked is not None and item.speed is not None and item.speed.speedup < asked:
                return item, QualityError(
                    f"{shown_below(item.speed.speedup, asked)} times as fast as the float model, less than the gate {asked:.15g}",
                    where=str(item.target),
                    hint="leave nodes that cost time in float (skip_quant_node; inspect --kernels shows them), or ask for less",
                    details={"speed": speed_to_json(item.speed)},
                )
        return None

    def missed(self, item: Proven) -> Missed | None:
        """The worst output of a file, if it is below the gate."""
        gate = self.limit(item.choice)
        worst = min(item.accuracy, key=lambda output: output.cosine, default=None)
        if worst is None or gate is None or worst.cosine >= gate:
            return None
        return Missed(worst.name, worst.cosine, gate)

    def limit(self, choice: Choice | None) -> float | None:
        """Least mean cosine of every output; ``None`` without a gate."""
        asked = self._request.min_cosine
        default = DEFAULT_MIN_COSINE if self.is_real and (choice is None or choice.is_gated) else 0.0
        return (default if asked is None else asked) or None


def _reference(original: ir.Model, context: RunContext, threads: int, *, hint: str) -> Session:
    if is_larger_than_memory(original):
        return _in_blocks(original, context)
    try:
        return open_session(context.engine, original, threads=threads)
    except ModelError as error:
        foreign = _foreign(original)
        if not foreign:
            hint = OTHER_TYPE if "NOT_IMPLEMENTED" in error.message else hint
            raise ModelError(error.message, where=error.where, hint=hint or error.hint) from error
        shown = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        raise ModelError(
            error.message,
            hint=f"the model has operators of other domains, and a result is proven by running it: {shown}",
        ) from error


def check_operators(original: ir.Model, context: RunContext) -> None:
    """Refuse a model with operators that the runtime does not know, where nothing is going to be proven.

    Raises:
        ModelError: The runtime cannot load it.
    """
    if _foreign(original):
        _reference(original, context, 1, hint="")


def _in_blocks(model: ir.Model, context: RunContext) -> Session:
    infer_shapes(model)
    return BlockSession(model, context)


def _foreign(model: ir.Model) -> list[str]:
    """Operators of other domains, which a runtime may not know."""
    return [f"{g.label(n)} of {n.domain}" for n in g.all_nodes(model.graph) if n.domain]


def _is_of_floats(model: ir.Model) -> bool:
    """Whether nothing in a model computes with integers."""
    return not _foreign(model) and all(node.op_type not in INTEGER_OPERATORS for node in g.all_nodes(model.graph))


def _open_axes(model: ir.Model) -> dict[str, frozenset[int]]:
    """Axes of outputs whose length follows neither from the model nor from the lengths of its inputs."""
    given = {dim.value for value in model.graph.inputs for dim in value.shape or () if not isinstance(dim, int)} - {
        None
    }
    return {
        value.name or "": frozenset(
            axis for axis, dim in enumerate(value.shape or ()) if not isinstance(dim, int) and dim.value not in given
        )
        for value in model.graph.outputs
    }


def _within(plan: QuantPlan, feed: Feed) -> dict[str, NDArray[Any]]:
    """Random samples clipped to the range that the inputs' integers can hold: values outside it would prove nothing."""
    inside = dict(feed)
    for name, params in plan.activations.items():
        if name in inside and not params.is_per_channel:
            spec, scale, zero = params.spec, float(params.scale), int(params.zero_point)
            low, high = (spec.qmin - zero) * scale, (spec.qmax - zero) * scale
            inside[name] = np.clip(inside[name], low, high).astype(inside[name].dtype)
    return inside


def _changed_interface(quantized: QuantizedModel, wanted: IoTypes) -> ir.Model | None:
    """The quantized graph with the wanted inputs and outputs, where they differ from those of the float model."""
    from converter_lite.quantization.qdq.materialize import materialize

    if wanted == IoTypes():
        return None
    interface = materialize(quantized)
    change_io_types(interface, wanted)
    return interface
