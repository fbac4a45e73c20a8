"""Running a model. The only module that knows ``onnxruntime``; anything that satisfies ``Engine`` can replace it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import ModelError

_log = logging.getLogger(__name__)

Feed = Mapping[str, NDArray[Any]]

INT8_REWRITE_FAILED = "output_dtype INT8 does not match y_zero_point type UINT8"
"""What onnxruntime 1.31 says on x86 where its own rewriting of int8 to uint8 meets a pair that it moved itself."""

_NO_TENSORS: Mapping[str, NDArray[Any]] = MappingProxyType({})


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
    ) -> Session:
        """Load serialized bytes or a file.

        Args:
            model: A serialized ModelProto, or the path of a file.
            tensors: Constants that the model calls external, by name; they are used as they lie in memory. Those of a file
                are found beside it without this.
            threads: Threads inside one operator; 0 = all cores.
            optimize: Let the runtime fuse operators; outputs stay equal up to float rounding.

        Raises:
            ModelError: The runtime cannot load the model.
        """


class _OrtSession:
    def __init__(self, session: Any, shared: Sequence[object] = ()) -> None:
        self._session = session
        self._shared = shared
        """What the session reads in place and must outlive it."""
        self.output_names = [output.name for output in session.get_outputs()]
        self._inputs = {value.name for value in session.get_inputs()}

    def run(self, feed: Feed) -> dict[str, NDArray[Any]]:
        import onnxruntime as ort

        try:
            values = self._session.run(None, {name: array for name, array in feed.items() if name in self._inputs})
        except (ort.capi.onnxruntime_pybind11_state.Fail, RuntimeError, ValueError) as error:
            raise ModelError(f"onnxruntime could not run the model: {_first_line(error)}") from error
        except Exception as error:
            if type(error).__module__.startswith("onnxruntime"):
                raise ModelError(f"onnxruntime could not run the model: {_first_line(error)}") from error
            raise
        return dict(zip(self.output_names, (np.asarray(v) for v in values), strict=True))


class OnnxRuntimeEngine:
    """CPU execution provider of onnxruntime."""

    def session(
        self,
        model: bytes | str | Path,
        *,
        tensors: Mapping[str, NDArray[Any]] = _NO_TENSORS,
        threads: int = 0,
        optimize: bool = True,
    ) -> Session:
        """See :class:`Engine`."""
        import onnxruntime as ort

        source = str(model) if isinstance(model, Path) else model
        shared = [ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for array in tensors.values()]

        def load(options: Any) -> Session:
            if shared:
                options.add_external_initializers(list(tensors), shared)
            return _OrtSession(ort.InferenceSession(source, options, providers=["CPUExecutionProvider"]), shared)

        try:
            return load(_options(threads, optimize=optimize))
        except Exception as error:
            if not (type(error).__module__.startswith("onnxruntime") or isinstance(error, RuntimeError)):
                raise
            if INT8_REWRITE_FAILED in str(error):
                options = _options(threads, optimize=optimize)
                options.add_session_config_entry("session.qdqisint8allowed", "1")
                _log.warning(
                    "this onnxruntime loads int8 activations at opset 21 or newer only with session.qdqisint8allowed=1"
                )
                return load(options)
            raise ModelError(f"onnxruntime cannot load the model: {_first_line(error)}") from error


def _options(threads: int, *, optimize: bool) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or os.cpu_count() or 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    return options


def run_all(session: Session, feeds: Sequence[Feed]) -> list[dict[str, NDArray[Any]]]:
    """Outputs of every sample, in order."""
    return [session.run(feed) for feed in feeds]


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


DEFAULT_ENGINE: Engine = OnnxRuntimeEngine()
