"""Reading command-line values: shapes, switches, repeated and refused flags."""

from __future__ import annotations

from collections.abc import Sequence

from converter_lite.errors import UsageError
from converter_lite.suggest import did_you_mean


def refuse_repeated(arguments: Sequence[str]) -> None:
    """The original refuses a flag that is given twice; so do we.

    Raises:
        UsageError: A flag stands twice.
    """
    seen: set[str] = set()
    for argument in arguments:
        if argument == "--":
            return
        flag = argument.split("=", 1)[0]
        if not flag.startswith("--"):
            continue
        if flag in seen:
            raise UsageError("the flag is given twice", where=flag)
        seen.add(flag)


def parse_input_shape(text: str) -> dict[str, tuple[int, ...]]:
    """``name:1,3,224,224;name2:1,128`` -> shapes by input name; the part behind the last colon is the shape.

    Raises:
        UsageError: The text has another form.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, colon, dims = part.rpartition(":")
        try:
            shape = tuple(int(d) for d in dims.split(","))
        except ValueError:
            shape = ()
        if not colon or not name.strip() or not shape or any(d <= 0 for d in shape):
            raise UsageError(
                f"{part!r} is not a shape",
                where="--inputShape",
                hint="write name:1,3,224,224;name2:1,128, sizes from 1 on",
            )
        if name.strip() in shapes:
            raise UsageError(f"input {name.strip()!r} is given twice", where="--inputShape")
        shapes[name.strip()] = shape
    return shapes


def one_of(value: str, allowed: Sequence[str], flag: str) -> str:
    """The value if it is allowed.

    Raises:
        UsageError: It is not; the nearest and all allowed values are named.
    """
    if value not in allowed:
        raise UsageError(f"{value!r} is not one of {', '.join(allowed)}{did_you_mean(value, allowed)}", where=flag)
    return value


def switch(value: str, flag: str, *, on: str = "true", off: str = "false") -> bool:
    """``true``/``false`` (or ``on``/``off``) as a boolean.

    Raises:
        UsageError: Another word.
    """
    return one_of(value, (on, off), flag) == on
