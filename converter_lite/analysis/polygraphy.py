"""Arrays in the JSON files of Polygraphy: inputs (``--save-inputs``) and outputs (``--save-outputs``) of any runtime."""

from __future__ import annotations

import base64
import binascii
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import DataError
from converter_lite.system.files import read_regular

Sample = dict[str, NDArray[Any]]


def read_polygraphy(path: Path) -> list[Sample]:
    """The samples of a file, or the outputs for them; of several runners the first.

    Raises:
        DataError: It is no such file, or an array cannot be read.
    """
    try:
        content = json.loads(read_regular(path))
        if isinstance(content, dict):
            (_, iterations), *_ = content["lst"]
            return [_sample(iteration["outputs"]) for iteration in iterations]
        return [_sample(sample) for sample in content]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "it does not hold arrays as Polygraphy writes them"
        raise DataError(
            f"the samples cannot be read: {reason}",
            where=str(path),
            hint="give what polygraphy run --save-inputs or --save-outputs wrote",
        ) from error


def _sample(values: dict[str, Any]) -> Sample:
    return {str(name): _array(value) for name, value in values.items()}


def _array(value: dict[str, Any]) -> NDArray[Any]:
    if "values" in value:
        value = value["values"]
    try:
        content = base64.b64decode(value["array"], validate=True)
    except binascii.Error as error:
        raise ValueError("no base64") from error
    array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return array
