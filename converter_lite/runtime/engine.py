"""Running a model. The only module that knows ``onnxruntime``; anything that satisfies ``Engine`` can replace it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.system.interruptions import interruptions_wait
from converter_lite.system.work_directory import temporary_folder

_log = logging.getLogger(__name__)

Feed = Mapping[str, NDArray[Any]]

INT8_REWRITE_FAILED = "output_dtype INT8 does not match y_zero_point type UINT8"
"""The message of onnxruntime 1.31 on x86 when its rewriting of int8 to uint8 meets a Q/DQ pair that it moved itself."""

OUT_OF_BOUNDS = "out of data bounds"
"""Part of the message about an index that no element has."""

BEYOND_TABLE = (
    "a sample holds a number that a table of the model does not have: token ids or classes belong to another vocabulary"
)

NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
"""Variable that keeps onnxruntime 1.32 from sending events about what it runs, and from a database of them in the home folder."""

_NO_TENSORS: Mapping[str, NDArray[Any]] = MappingProxyType({})


def _array(value: Any) -> NDArray[Any]:
    """An output; tensors of different shapes in a sequence become one row."""
    if isinstance(value, list) and len({np.shape(item) for item in value}) > 1:
        return np.concatenate([np.ravel(item) for item in value])
    return np.array(value)


class Session(Protocol):
    """A loaded model."""

    output_names: list[str]

    def run(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """Outputs by name for one sample.

        Raises:
            ModelError: The runtime refused the sample.
        """


class Engine(Protocol):
    """Loads models for calibration, constant folding and proof."""

    def session(
        self,
        model: bytes | str | Path,
        *,
        tensors: Mapping[str, NDArray[Any]] = _NO_TENSORS,
        threads: int = 0,
        optimize: bool = True,
        exact: bool = True,
        folded: bool = False,
    ) -> Session:
        """Load serialized bytes or a file.

        Args:
            model: A serialized ModelProto, or the path of a file.
            tensors: Constants that the model declares external, by name, used in place in memory. Those of a file are found
                beside it without this.
            threads: Threads inside one operator; 0 = all cores.
            optimize: Let the runtime fuse operators; outputs stay equal up to float rounding.
            exact: Do not round activations of products with a dequantized weight, and round to both of two grids that follow
                each other, other than the runtime does by default.
            folded: Dequantize constants once, at load. For graphs that quantize nothing while they run: no other kernel is
                lost to them.

        Raises:
            ModelError: The runtime cannot load the model.
        """


FLOAT_ACTIVATIONS = "1"
"""Level of products with a dequantized weight; by default the runtime rounds their activations to int8, in blocks that depend
on the processor."""


class _OrtSession:
    def __init__(self, session: Any, shared: Sequence[object] = ()) -> None:
        self._session = session
        self._shared = shared
        """What the session reads in place, which must outlive it."""
        self.output_names = [output.name for output in session.get_outputs()]
        self._inputs = {value.name for value in session.get_inputs()}

    def run(self, feed: Feed) -> dict[str, NDArray[Any]]:
        import onnxruntime as ort

        try:
            values = self._session.run(None, {name: array for name, array in feed.items() if name in self._inputs})
        except (ort.capi.onnxruntime_pybind11_state.Fail, RuntimeError, ValueError) as error:
            raise _refusal(error) from error
        except Exception as error:
            if type(error).__module__.startswith("onnxruntime"):
                raise _refusal(error) from error
            raise
        # copies: onnxruntime 1.23 returns memory that is freed with the session
        return dict(zip(self.output_names, (_array(v) for v in values), strict=True))

    def end_profiling(self) -> str:
        """Stop a profile; the path of its file."""
        return str(self._session.end_profiling())


def _refusal(error: Exception) -> ModelError:
    """Why a sample could not be run."""
    text = _first_line(error)
    return ModelError(
        f"onnxruntime could not run the model: {text}", hint=BEYOND_TABLE if OUT_OF_BOUNDS in text else ""
    )


class OnnxRuntimeEngine:
    """CPU execution provider of onnxruntime."""

    def session(
        self,
        model: bytes | str | Path,
        *,
        tensors: Mapping[str, NDArray[Any]] = _NO_TENSORS,
        threads: int = 0,
        optimize: bool = True,
        exact: bool = True,
        folded: bool = False,
    ) -> Session:
        """See :class:`Engine`."""
        return _load(model, tensors, lambda: _options(threads, optimize=optimize, exact=exact, folded=folded))


def _load(model: bytes | str | Path, tensors: Mapping[str, NDArray[Any]], options_of: Callable[[], Any]) -> _OrtSession:
    os.environ.setdefault(NO_TELEMETRY, "1")
    with interruptions_wait():
        import onnxruntime as ort

    source = str(model) if isinstance(model, Path) else model
    shared = [ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for array in tensors.values()]

    def load(options: Any) -> _OrtSession:
        if shared:
            options.add_external_initializers(list(tensors), shared)
        return _OrtSession(ort.InferenceSession(source, options, providers=["CPUExecutionProvider"]), shared)

    try:
        return load(options_of())
    except Exception as error:
        if not (type(error).__module__.startswith("onnxruntime") or isinstance(error, RuntimeError)):
            raise
        if INT8_REWRITE_FAILED in str(error):
            options = options_of()
            options.add_session_config_entry("session.qdqisint8allowed", "1")
            if isinstance(model, Path):  # parts of a network that are run here are nobody else's
                _log.warning(
                    "this onnxruntime loads int8 activations at opset 21 or newer only with session.qdqisint8allowed=1"
                )
            return load(options)
        raise ModelError(f"onnxruntime cannot load the model: {_first_line(error)}") from error


def engine_version() -> str:
    """Version of the runtime, whose kernels differ in the last digits of what they compute."""
    import onnxruntime as ort

    return str(ort.__version__)


def _options(threads: int, *, optimize: bool, exact: bool, folded: bool = False) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or os.cpu_count() or 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if exact:
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", FLOAT_ACTIVATIONS)
        options.add_session_config_entry("session.disable_double_qdq_remover", "1")
    if folded:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.enable_mem_pattern = False
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    return options


@dataclass(frozen=True, slots=True)
class KernelRun:
    """A kernel that ran.

    Attributes:
        node: Name of the node in the runtime's optimized graph.
        kernel: Its operator there.
        inputs, outputs: Element types as the runtime calls them, ``float`` or ``uint8`` for example.
        microseconds: Wall time of the fastest run.
    """

    node: str
    kernel: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    microseconds: int


def profile(
    model: bytes | Path, feeds: Sequence[Feed], *, tensors: Mapping[str, NDArray[Any]] = _NO_TENSORS
) -> list[KernelRun]:
    """Kernels of the main graph in the order in which they run, from onnxruntime's profile with one thread.

    Args:
        model: A serialized ModelProto, or the path of a file.
        feeds: Samples; each is one run.
        tensors: See :class:`Engine`.

    Raises:
        ModelError: The runtime refuses the model or a sample.
    """
    with temporary_folder() as folder:

        def options() -> Any:
            made = _options(1, optimize=True, exact=False)
            made.enable_profiling, made.profile_file_prefix = True, str(folder / "profile")
            return made

        session = _load(model, tensors, options)
        try:
            run_all(session, feeds)
        finally:
            file = session.end_profiling()
        events = json.loads(Path(file).read_text(encoding="utf-8"))
    return _kernels(events)


def _kernels(events: Sequence[Mapping[str, Any]]) -> list[KernelRun]:
    ending = "_kernel_time"
    found: dict[str, KernelRun] = {}
    for event in events:
        name, values = str(event.get("name", "")), event.get("args", {})
        if event.get("cat") != "Node" or not name.endswith(ending):
            continue
        types = (
            [str(k) for shape in values.get(f"{side}_type_shape", ()) for k in shape] for side in ("input", "output")
        )
        inputs, outputs = (tuple(side) for side in types)
        known = found.get(f"{values.get('node_index')} {name}")
        time = int(event.get("dur", 0))
        if known is not None:
            time = min(time, known.microseconds)
        run = KernelRun(name.removesuffix(ending), str(values.get("op_name", "")), inputs, outputs, time)
        found[f"{values.get('node_index')} {name}"] = run
    return list(found.values())


def run_all(session: Session, feeds: Sequence[Feed]) -> list[dict[str, NDArray[Any]]]:
    """Outputs of every sample, in order."""
    return [session.run(feed) for feed in feeds]


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


DEFAULT_ENGINE: Engine = OnnxRuntimeEngine()
