"""Models in OpenVINO, in turns that :mod:`bench.latency` asks for: ``python -m bench.in_openvino FEEDS.npz MODEL ...``.

Runs in OpenVINO's own environment. Says a line of JSON for each model: the file with its outputs, or why there are none. Then
each line of standard input is the number of a model, and the answer is the milliseconds of its turn.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino  # type: ignore[import-not-found]  # lives in an environment of its own

from bench.turns import Timed


def main(feeds_file: Path, paths: list[Path]) -> None:
    """Load all models, then take turns."""
    with np.load(feeds_file) as arrays:
        count = 1 + max(int(key.partition("/")[0]) for key in arrays)
        feeds = [{k.partition("/")[2]: arrays[k] for k in arrays if k.startswith(f"{i}/")} for i in range(count)]
    timed = {}
    for number, path in enumerate(paths):
        try:
            run = _loaded(path)
            outputs = {f"{i}/{o}": array for i, feed in enumerate(feeds) for o, array in enumerate(run(feed))}
            timed[number] = Timed(run, feeds)
        except RuntimeError as error:
            said = [line.strip() for line in str(error).splitlines() if line.strip()]
            print(json.dumps({"failure": said[-1]}), flush=True)
            continue
        file = feeds_file.with_name(f"openvino_{number}.npz")
        np.savez(file, **outputs)
        print(json.dumps({"outputs": str(file)}), flush=True)
    for line in sys.stdin:
        print(timed[int(line)].turn(), flush=True)


def _loaded(path: Path) -> Callable[[dict[str, Any]], list[Any]]:
    """In the types of the file: by default OpenVINO makes bfloat16 of float32, where the processor knows it."""
    one = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    model = openvino.Core().compile_model(str(path), "CPU", {**one, "EXECUTION_MODE_HINT": "ACCURACY"})
    request = model.create_infer_request()

    def run(feed: dict[str, Any]) -> list[Any]:
        found = request.infer(feed)
        return [found[output] for output in model.outputs]

    return run


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
