"""``python -m bench.rebuild MODEL FILE OUT.onnx``: what a ``.ms`` or ``.nb`` file says, as ONNX with the float model's inputs."""

from __future__ import annotations

import argparse
from pathlib import Path

from converter_lite.cli.arguments import parse_input_shape
from converter_lite.formats.base import OutputFormat
from converter_lite.formats.mindspore_lite.format import MsFormat
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.paddle.format import NbFormat


def main() -> None:
    """Read the file back and write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.rebuild", description=__doc__)
    for name in ("model", "file", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--shapes", default="")
    arguments = parser.parse_args()
    like = read_onnx(arguments.model, input_shapes=parse_input_shape(arguments.shapes))
    form: OutputFormat = NbFormat() if arguments.file.suffix == ".nb" else MsFormat()
    made = form.runnable(arguments.file, like=like)
    arguments.output.write_bytes(made if isinstance(made, bytes) else made.read_bytes())


if __name__ == "__main__":
    main()
