"""Processor time of ``opt`` beside the released one: ``python -m bench.opt_time [--turns=N]`` prints a table.

MobileNet-v1 0.75 as a Paddle model, ``--quant_model=true --quant_type=QUANT_INT8``. All rows take a turn one after the other, so
that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.machine import processor_kind
from bench.process import measure
from bench.programs import Places, paddle_model
from bench.tables import markdown_table

ROOT = Path(__file__).resolve().parents[1]

RELEASED = "Paddle-Lite opt"

IMPORTS = "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'; "

WITHOUT_PROOF = """
import converter_lite.cli.opt as command
import converter_lite.cli.opt_request as adapter
convert = adapter.convert
def unproven(request):
    from converter_lite.pipeline.prove import Proof
    Proof._open_reference = lambda self: None
    Proof.compare = lambda self, *arguments: ()
    return convert(request)
command.convert = unproven
command.main()
"""
"""``opt`` as it would be if it did not run what it writes."""


def commands(places: Places) -> Mapping[str, list[str]]:
    """Row -> command."""
    flags = (f"--model_dir={paddle_model('fp32', places)}", "--valid_targets=arm", "--quant_model=true")
    flags = (*flags, "--quant_type=QUANT_INT8", f"--optimize_out={places.work / 'written'}")
    python = [sys.executable, "-c"]
    return {
        RELEASED: [str(places.runtimes / "pd212/bin/paddle_lite_opt"), *flags],
        "opt": [*python, "from converter_lite.cli.opt import main; main()", *flags],
        "opt without its proof": [*python, WITHOUT_PROOF, *flags],
        "Python alone": [*python, "pass"],
        "import numpy": [*python, f"{IMPORTS} import numpy"],
        "import numpy, onnx_ir, click": [
            *python,
            f"{IMPORTS} from converter_lite.cli.deferring import defer_imports; defer_imports(); import onnx_ir, click",
        ],
        "import onnxruntime": [*python, f"{IMPORTS} import onnxruntime"],
        "opt --help": [*python, "from converter_lite.cli.opt import main; main()", "--help"],
        "converter_lite --help": [*python, "from converter_lite.cli.converter_lite import main; main()", "--help"],
        "converter_lite --version": [
            *python,
            "from converter_lite.cli.converter_lite import main; main()",
            "--version",
        ],
    }


def seconds(rows: Mapping[str, Sequence[str]], turns: int) -> dict[str, list[float]]:
    """Processor seconds of each row in each turn, after one that compiles and fills caches.

    Raises:
        RuntimeError: A command failed.
    """
    taken: dict[str, list[float]] = {name: [] for name in rows}
    for turn in range(turns + 1):
        for name, command in rows.items():
            done = measure(command, cwd=ROOT)
            if done.status:
                raise RuntimeError(f"{name}: {done.output}")
            if turn:
                taken[name].append(done.processor_seconds)
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared", help="folder of the shared models")
    options = parser.parse_args()
    turns = options.turns
    with tempfile.TemporaryDirectory() as folder:
        places = Places(ROOT, options.shared.resolve(), Path(folder), ROOT / ".runtimes")
        taken = seconds(commands(places), turns)
    unit, least = statistics.median(taken[RELEASED]), min(taken[RELEASED])
    table = [
        (
            name,
            f"{statistics.median(t):.2f} s",
            f"{statistics.median(t) / unit:.1f}",
            f"{min(t):.2f} s",
            f"{min(t) / least:.1f}",
        )
        for name, t in taken.items()
    ]
    print(f"Processor time, {turns} turns, {processor_kind()}, Python {sys.version.split()[0]}\n")
    print(markdown_table(("", "median", "x", "least", "x"), table))


if __name__ == "__main__":
    main()
