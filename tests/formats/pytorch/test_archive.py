"""What a file of PyTorch is, and what in it would run when it is loaded; all of it found without PyTorch."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from converter_lite.formats.child import Refusal
from converter_lite.formats.pytorch.child.archive import EXPORTED, PICKLED, SCRIPTED, archive_of, is_plain
from converter_lite.formats.pytorch.child.pickles import foreign_globals
from tests.formats.pytorch.archives import (
    NODE,
    WEIGHT,
    WEIGHTS,
    Bomb,
    artifact,
    exported,
    program,
    save,
    saved,
    scripted,
)
from tests.support import assert_peak


def refusal(path: Path) -> Refusal:
    with pytest.raises(Refusal) as refused:
        archive_of(path).refuse_code()
    return refused.value


def test_files_that_only_compute_are_read(tmp_path: Path) -> None:
    for path, kind in ((exported(tmp_path / "a.pt2"), EXPORTED), (scripted(tmp_path / "b.pt"), SCRIPTED)):
        archive = archive_of(path)
        assert archive.kind == kind
        archive.refuse_code()


@pytest.mark.parametrize("content", [WEIGHTS, {"state_dict": WEIGHTS, "epoch": 3}, [1, 2]])
def test_weights_alone_are_refused_with_the_reason(content: Any, tmp_path: Path) -> None:
    error = refusal(saved(tmp_path / "state.pth", content))
    assert "weights only (a state dict)" in error.message
    assert "--allowUnsafeModels" not in error.hint


def test_other_pickles_need_the_flag(tmp_path: Path) -> None:
    old = tmp_path / "old.pt"
    old.write_bytes(pickle.dumps(Bomb()))
    for path in (saved(tmp_path / "network.pt", {"net": Bomb()}), old):
        assert archive_of(path).kind == PICKLED
        error = refusal(path)
        assert "runs whatever code" in error.message
        assert "--allowUnsafeModels" in error.hint


TARGETS = {
    "a function of Python": "torch.hub.os.system",
    "loading": "torch.load",
    "another namespace": "torch.ops.mine.run.default",
    "a file": "torch.ops.aten.from_file.default",
    "methodcaller": "_operator.methodcaller",
    "an extension": "#AOTI:run",
    "a name within": "torch.ops.aten.linear.default.__globals__",
}


@pytest.mark.parametrize("name", TARGETS)
def test_programs_that_call_more_than_operators_are_refused(name: str, tmp_path: Path) -> None:
    described = program({**NODE, "target": TARGETS[name]})
    error = refusal(exported(tmp_path / "a.pt2", described))
    assert TARGETS[name] in error.message
    assert "--allowUnsafeModels" in error.hint


SIZES = [
    "__import__('os').system('true')",
    "().__class__",
    "s0.free_symbols",
    "s0 . func",
    "preview(s0)",
    "lambdify(s0, s1)",
    "open(s0)",
    "[s0 for s0 in s1]",
    "Symbol('x'.lower())",
    "s0;s1",
    "s0" * 6000,
]


@pytest.mark.parametrize("text", SIZES)
def test_sizes_that_are_programs_are_refused(text: str, tmp_path: Path) -> None:
    assert not is_plain(text)
    described = program()
    described["graph_module"]["graph"]["tensor_values"] = {"x": {"sizes": [{"as_expr": {"expr_str": text}}]}}
    assert "a size that is more than an expression" in refusal(exported(tmp_path / "a.pt2", described)).message


@pytest.mark.parametrize(
    "text",
    [
        "s0",
        "2*s0 + 1",
        "(s77//2)",
        "Max(1, s0)",
        "Mod(s0, 8)",
        "u0 >= 2",
        "Symbol('s64', positive=True, integer=True)",
        "Mul(Integer(2), Symbol('s64', integer=True))",
        "0.5*s0",
    ],
)
def test_sizes_are_expressions(text: str) -> None:
    assert is_plain(text)


def test_conditions_are_comparisons(tmp_path: Path) -> None:
    archive_of(
        exported(tmp_path / "a.pt2", program(guards_code=["L['x'].size()[0] >= 2", "L['x'].size()[1] == 3"]))
    ).refuse_code()
    for guard in ("print(1)", "L['x'].numpy()", 'True, ""); import os; (', 5):
        assert "condition" in refusal(exported(tmp_path / "b.pt2", program(guards_code=[guard]))).message


PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "a pickled weight": ({"weight": {**WEIGHT, "use_pickle": True}}, "stored as a pickle"),
    "a weight without the word": ({"weight": {"path_name": "weight_0"}}, "stored as a pickle"),
    "an object": ({"weight": {**WEIGHT, "path_name": "opaque_obj_0"}}, "stored as a pickle"),
    "samples": ({"data__sample_inputs__model.pt": artifact(Bomb())}, "would run"),
    "old samples": ({"data__sample_inputs__model.pt": pickle.dumps(Bomb())}, "cannot be checked"),
    "old weights": ({"data__weights__model.pt": artifact(Bomb())}, "would run"),
    "a library": ({"data__aotinductor__model__a.so": b"\x7fELF"}, "compiled library"),
    "a named module": (
        {"described": program(module_call_graph=[{"in_spec": '["default_factory_module"]'}])},
        "module that it names",
    ),
    "an enumeration": (
        {"described": program(module_call_graph=[{"out_spec": '{"__enum__": 1}'}])},
        "module that it names",
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_programs_that_would_run_are_refused(name: str, tmp_path: Path) -> None:
    parts, message = PARTS[name]
    error = refusal(exported(tmp_path / "a.pt2", **parts))
    assert message in error.message
    assert "--allowUnsafeModels" in error.hint


def test_samples_of_tensors_alone_are_let_pass(tmp_path: Path) -> None:
    archive_of(exported(tmp_path / "a.pt2", **{"data__sample_inputs__model.pt": artifact(((1.0,), {}))})).refuse_code()
    archive_of(exported(tmp_path / "b.pt2", **{"data__sample_inputs__model.pt": b""})).refuse_code()


@pytest.mark.parametrize(
    "line",
    [
        "torch.save(x, '/tmp/x')",
        "y = torch.from_file('/etc/passwd')",
        "y = ops.aten.from_file('/etc/passwd')",
        "y = ops.mine.run(x)",
        "y = __torch__.torch.classes.mine.Thing",
    ],
)
def test_scripts_that_do_more_than_compute_are_refused(line: str, tmp_path: Path) -> None:
    error = refusal(scripted(tmp_path / "a.pt", line))
    assert "does more than compute" in error.message
    assert "--allowUnsafeModels" in error.hint


def test_scripts_call_operators(tmp_path: Path) -> None:
    archive_of(
        scripted(tmp_path / "a.pt", "y = ops.quantized.linear(ops.aten.add(x, x), ops.prim.dtype(x))")
    ).refuse_code()


DAMAGED = {
    "noise": b"noise" * 100,
    "nothing": b"",
    "half": None,
    "no JSON": "{",
    "deep JSON": "[" * 100_000,
    "a list": "[]",
    "no graph": "{}",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_refused(name: str, tmp_path: Path) -> None:
    content, path = DAMAGED[name], tmp_path / "a.pt2"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is None:
        whole = exported(path).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    else:
        exported(path, content)
    assert "damaged" in refusal(path).message or "no file of PyTorch" in refusal(path).message


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["models/model.json", "models/MODEL.json"])
def test_members_of_one_name_are_refused(name: str, tmp_path: Path) -> None:
    path = exported(tmp_path / "a.pt2")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"net/{name}", json.dumps(program({**NODE, "target": "torch.hub.os.system"})))
    assert "two members have one name" in refusal(path).message


def test_members_that_unfold_to_much_more_than_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/models/model.json", "[" + " " * 20_000_000 + "]")
    assert path.stat().st_size < 100_000
    assert_peak(lambda: refusal(path), 2_000_000)
    assert "20,000,002 bytes" in refusal(path).message


def test_what_was_checked_is_what_is_loaded(tmp_path: Path) -> None:
    path = exported(tmp_path / "a.pt2")
    path.write_bytes(b"something before" + path.read_bytes())
    copy = archive_of(path).copy(tmp_path / "b.pt2")
    assert copy.read_bytes().startswith(b"PK")
    with zipfile.ZipFile(path) as one, zipfile.ZipFile(copy) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


def test_other_archives_are_refused(tmp_path: Path) -> None:
    assert "no model of PyTorch" in refusal(save(tmp_path / "a.pt2", {"readme.txt": "text"})).message
    old = save(tmp_path / "b.pt2", {"serialized_exported_program.json": "{}"}, prefix="")
    assert "PyTorch 2.5 or before" in refusal(old).message


def test_pickles_are_read_without_unpickling() -> None:
    assert foreign_globals(pickle.dumps(WEIGHTS, protocol=2)) == []
    assert foreign_globals(pickle.dumps(Bomb(), protocol=2)) == ["__builtin__.print"]
    assert foreign_globals(pickle.dumps(Bomb(), protocol=4)) == ["STACK_GLOBAL"]
    assert foreign_globals(b"\x80\x02garbage") != []
    assert foreign_globals(b"") != []
