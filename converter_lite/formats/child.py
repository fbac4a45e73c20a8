"""What the converter and the program that it starts for a framework say to each other, in files of one folder.

The program runs in whichever interpreter has the framework: this module, and those of the program, import nothing else of the
package.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

REQUEST, ANSWER, MODEL = "request.json", "answer.json", "model.onnx"
"""Names of the files in the folder: what is asked, what became of it, and the model that was asked for."""

LONGEST = 600
"""Characters of a message of a framework that are shown."""

Shape = list["int | None"]
"""Sizes of an input; ``None`` is open."""


class Refusal(Exception):
    """A model that is not converted, with the reason and a remedy."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Request:
    """What the program is asked.

    Attributes:
        task: ``convert`` writes the model, ``describe`` gives blocks.
        model: Absolute path of the file or folder.
        shapes: Input name -> sizes that the user gave.
        unsafe: Code that the file holds may run.
    """

    task: str
    model: str
    shapes: dict[str, list[int]] = field(default_factory=dict)
    unsafe: bool = False


@dataclass(frozen=True)
class Answer:
    """What became of it.

    Attributes:
        refused: Why nothing did.
        hint: What to do about that.
        is_usage: The command line is what has to change.
        missing: Packages that are not installed.
        notes: What the user should know about the model that was written.
        blocks: A description: lines, and rows of tables.
    """

    refused: str = ""
    hint: str = ""
    is_usage: bool = False
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blocks: list[str | list[list[str]]] = field(default_factory=list)


class WrongUsage(Refusal):
    """The command line does not fit the model."""


def serve(packages: Sequence[str], work: Callable[[], Callable[[Request, Path], Answer]]) -> None:
    """Do what the folder asks whose path is the last argument.

    Args:
        packages: What the program imports.
        work: Imports them and gives the function that answers.
    """
    folder = Path(sys.argv[-1])
    request = Request(**json.loads((folder / REQUEST).read_text(encoding="utf-8")))
    answer = _answer(packages, work, request, folder)
    finished = folder / f"{ANSWER}.part"
    finished.write_text(json.dumps(asdict(answer)), encoding="utf-8")
    finished.replace(folder / ANSWER)


def _answer(
    packages: Sequence[str], work: Callable[[], Callable[[Request, Path], Answer]], request: Request, folder: Path
) -> Answer:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        return Answer(missing=missing)
    try:
        return work()(request, folder)
    except Refusal as refusal:
        return Answer(refusal.message, refusal.hint, isinstance(refusal, WrongUsage))
    except RecursionError:
        return Answer("it is nested too deeply")
    except Exception as error:  # noqa: BLE001 - whatever a framework says of a file that it cannot read is an answer
        return Answer(last_line(str(error)) or type(error).__name__)


PROGRAMS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "os.startfile",
    "subprocess.Popen",
    "socket.connect",
)
"""What Python tells before it starts a program or opens a connection."""

UNPICKLED = re.compile(r"torch\b.*|collections|_codecs|numpy\b.*")
"""Packages whose objects may be unpickled."""


def forbid_programs() -> None:
    """From here on, Python code in this process starts no program, opens no connection, and unpickles tensors alone.

    Files are checked before they are loaded; this stands behind the check, for what it does not know.
    """

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event in PROGRAMS:
            raise RuntimeError(f"the file would start a program ({event})")
        if event == "pickle.find_class" and not UNPICKLED.fullmatch(str(arguments[0])):
            raise RuntimeError(f"the file would run {arguments[0]}.{arguments[1]}")

    sys.addaudithook(refuse)


def last_line(text: str) -> str:
    """The last line that says something, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = lines[-1] if lines else ""
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def check_shapes(inputs: Mapping[str, Shape | None], given: Mapping[str, Sequence[int]]) -> None:
    """Refuse sizes that contradict the inputs of a model.

    Raises:
        WrongUsage: An input is unknown, or a shape does not fit it.
    """
    for name, shape in given.items():
        if name not in inputs:
            raise WrongUsage(f"the model has no input '{name}'", f"known are {', '.join(inputs)}")
        own = inputs[name]
        if own is not None and (
            len(own) != len(shape) or any(o not in (None, s) for o, s in zip(own, shape, strict=True))
        ):
            wanted, found = "x".join(map(str, shape)), "x".join("?" if size is None else str(size) for size in own)
            raise WrongUsage(
                f"input '{name}' is {found or 'a single number'}, not {wanted}", "only open sizes can be set"
            )


def shape_text(shape: Shape | None) -> str:
    """``?x49x10``."""
    return "?" if shape is None else "x".join("?" if size is None else str(size) for size in shape) or "1"
