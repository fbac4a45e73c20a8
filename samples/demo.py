"""Converts the sample model with the installed `converter_lite` command and shows the accuracy before and after.

    python samples/demo.py          full quantization
    python samples/demo.py --all    also weight quantization and dynamic quantization

The converted models are written into `demo_output/` of the repository.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from run_onnxruntime import load_pictures, run, table

REPOSITORY = Path(__file__).parent.parent
FLOAT_MODEL = Path("samples/shapes.onnx")
OUTPUT = Path("demo_output")

CONFIGS = {
    "shapes_int8": Path("samples/full_quant.cfg"),
    "shapes_weight8": Path("samples/weight_quant.cfg"),
    "shapes_dynamic": Path("samples/dynamic_quant.cfg"),
}
"""Output name -> configuration; the first one is the demo, the others come with `--all`."""


def find_converter() -> str:
    """Return the `converter_lite` command that belongs to this Python, else the one on PATH.

    Raises:
        FileNotFoundError: The package is not installed.
    """
    command = shutil.which("converter_lite", path=Path(sys.executable).parent) or shutil.which("converter_lite")
    if command is None:
        raise FileNotFoundError("the command converter_lite is not installed: run `make demo` or `pip install .`")
    return command


def convert(command: str, name: str, config: Path) -> Path:
    """Convert the sample model as a user would; return the written file.

    Raises:
        subprocess.CalledProcessError: The converter refused or the result missed its quality gate.
    """
    arguments = [
        command,
        "--fmk=ONNX",
        f"--modelFile={FLOAT_MODEL}",
        f"--outputFile={OUTPUT / name}",
        f"--configFile={config}",
    ]
    print("$ converter_lite", *arguments[1:], flush=True)
    subprocess.run(arguments, cwd=REPOSITORY, check=True)
    return REPOSITORY / OUTPUT / f"{name}.onnx"


def main() -> int:
    """Convert, run both models on the test pictures, print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="also weight and dynamic quantization")
    arguments = parser.parse_args()

    (REPOSITORY / OUTPUT).mkdir(exist_ok=True)
    names = list(CONFIGS) if arguments.all else list(CONFIGS)[:1]
    try:
        command = find_converter()
        converted = [convert(command, name, CONFIGS[name]) for name in names]
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    pictures, labels = load_pictures()
    runs = [run(model, pictures) for model in (REPOSITORY / FLOAT_MODEL, *converted)]
    print(f"\n{len(labels)} labelled test pictures, one at a time, one thread:\n{table(runs, labels)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
