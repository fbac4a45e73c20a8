"""No function takes more parameters than a reader can hold: what belongs together is handed on as one object."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "converter_lite"

MOST = 6

# They have the parameters of PaddleSlim's functions of these names: a script that called those changes its import only.
AS_ELSEWHERE = {"api.py: quant_post_static", "api.py: quant_post_dynamic"}


def crowded(source: str) -> Iterator[str]:
    """Names of functions with more than ``MOST`` named parameters, ``self`` and ``cls`` aside."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            named = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            if sum(argument.arg not in ("self", "cls") for argument in named) > MOST:
                yield getattr(node, "name", "lambda")


def test_functions_take_six_parameters_at_most() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    found = {
        f"{file.relative_to(PACKAGE).as_posix()}: {name}" for file in files for name in crowded(file.read_text("utf-8"))
    }
    assert found == AS_ELSEWHERE


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(a, b, c, d, e, g): ...", []),
        ("def f(a, b, /, c, d, *, e, g, h): ...", ["f"]),
        ("class C:\n    def f(self, a, b, c, d, e, g, *more, **options): ...", []),
        ("class C:\n    async def f(self, a, b, c, d, e, g, h): ...", ["f"]),
        ("f = lambda a, b, c, d, e, g, h: a", ["lambda"]),
    ],
)
def test_all_kinds_of_parameters_count(source: str, names: list[str]) -> None:
    assert list(crowded(source)) == names
