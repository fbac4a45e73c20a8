"""Constants that lie in another file than the model."""

from __future__ import annotations

from threading import RLock
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

_LOADING = RLock()


class PlacedTensor(ir.ExternalTensor):
    """External data that threads may read, in a file whose place is checked already.

    onnx_ir (1.1) maps the file at the first read, which two threads must not be in at once: the second fails, or gets an array
    that has no shape yet. It also refuses every file that has a second name (a hard link).
    """

    def numpy(self) -> NDArray[Any]:
        """The numbers; of 8 bits and more mapped from the file."""
        with _LOADING:
            return super().numpy()

    def __array__(self, dtype: Any = None) -> NDArray[Any]:
        with _LOADING:
            return np.asarray(super().__array__(dtype))

    def tobytes(self) -> bytes:
        """A copy of the bytes in the file."""
        with _LOADING:
            return super().tobytes()

    def _check_path_containment(self) -> None:
        """Done when the model is read, where it is asked for (:func:`converter_lite.formats.onnx.checks.check_model`)."""
