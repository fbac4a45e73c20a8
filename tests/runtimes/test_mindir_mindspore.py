"""MindIR files in MindSpore itself, and what the original converter makes of them, beside what is read here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.source import read_source
from converter_lite.formats.source import ModelFiles
from converter_lite.system.encryption import Key
from tests.cli.workshop import command
from tests.formats.mindir.files import read, run
from tests.formats.mindir.test_operators import CASES
from tests.formats.mindir.test_structure import EXPECTED, PROGRAMS, X
from tests.runtimes.conftest import Tally
from tests.runtimes.mindspore_runtime import CHILDREN, Arrays, Exported, export, run_files
from tests.runtimes.ms_runtime import X86_PYTHON, run_x86, x86_missing

pytestmark = pytest.mark.runtime

DIFFERENT = {
    "StridedSlice backwards": "a begin behind the end of an axis is read there, outside of the tensor",
    "StridedSlice behind an ellipsis": "the shape is that of the documentation, and the numbers are those without the ellipsis",
    "StridedSlice with a new axis": "the shape is that of the documentation, and the numbers are read outside of the tensor",
}
"""What MindSpore's kernels for a CPU compute in another way than it documents; its own exporter writes no such node."""

NETWORKS = (
    *("mobilenet", "mobilenet_small", "residual", "lstm", "lstm_both", "lstm_states", "lstm_cell", "gru", "rnn"),
    *("transformer", "encoder"),
)


def is_close(found: Arrays, wanted: Arrays) -> bool:
    """The same shapes, and numbers within 1e-5 of them, or of 1."""
    return len(found) == len(wanted) and all(
        one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-5, atol=1e-5, equal_nan=True))
        for one, other in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize(("release", "version", "least"), [("mindspore27", 3, 200), ("mindspore20", 1, 12)])
def test_mindspore_computes_what_is_expected_of_every_operator(
    release: str, version: int, least: int, tmp_path: Path, tally: Tally
) -> None:
    """Operators without a kernel for a CPU are left out: MindSpore ends, or says so."""
    cases = {name: case for name, case in CASES.items() if case.version == version}
    found = run_files(release, {name: (case.content(), list(case.feed)) for name, case in cases.items()}, tmp_path)
    ran = {name: result for name, result in found.items() if not isinstance(result, str)}
    wrong = [
        name
        for name, result in ran.items()
        if name not in DIFFERENT and not is_close(result[: cases[name].parts], cases[name].read_results())
    ]
    tally(release, "MINDIR operators", tried=len(found), refused=len(found) - len(ran), wrong=len(wrong))
    assert wrong == []
    assert len(ran) >= least


def test_mindspore_computes_what_is_expected_of_programs(tmp_path: Path, tally: Tally) -> None:
    names = [name for name in PROGRAMS if name not in ("an open size as a tensor",)]
    found = run_files("mindspore27", {name: (PROGRAMS[name](), [X]) for name in names}, tmp_path)
    ran = {name: result for name, result in found.items() if not isinstance(result, str)}
    tally("mindspore27", "MINDIR programs", tried=len(found), refused=len(found) - len(ran))
    assert [name for name, result in ran.items() if not is_close(result, EXPECTED[name])] == []
    assert ran


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export("mindspore27", tmp_path_factory.mktemp("mindspore27"))


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export("mindspore20", tmp_path_factory.mktemp("mindspore20"))


def results(exported: Exported, file: str, name: str) -> tuple[Arrays, Arrays]:
    """What we find with a file, and what MindSpore found."""
    feed, wanted = exported.recorded(name)
    model = read(exported.folder / f"{file}.mindir").model
    named = {str(value.name): array for value, array in zip(model.graph.inputs, feed, strict=True)}
    return run(model, named), wanted


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_mindspore_2_7_give_its_numbers(name: str, newer: Exported, tally: Tally) -> None:
    tally("mindspore27", "MINDIR networks")
    assert is_close(*results(newer, name, name))


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_mindspore_2_0_give_its_numbers(name: str, older: Exported, tally: Tally) -> None:
    tally("mindspore20", "MINDIR networks")
    assert is_close(*results(older, name, name))


@pytest.mark.parametrize("name", ["mobilenet_small", "lstm", "transformer"])
def test_networks_with_open_sizes_give_the_same_numbers(name: str, newer: Exported, tally: Tally) -> None:
    tally("mindspore27", "MINDIR networks")
    model = read(newer.folder / f"{name}_open.mindir").model
    assert any(not isinstance(size, int) for size in model.graph.inputs[0].shape or ())
    assert is_close(*results(newer, f"{name}_open", f"{name}_open"))


def test_weights_in_a_folder_of_their_own_are_read(newer: Exported, older: Exported, tally: Tally) -> None:
    for exported in (newer, older):
        tally("mindspore27" if exported is newer else "mindspore20", "MINDIR networks")
        assert (exported.folder / "apart_variables" / "data_0").exists()
        assert is_close(*results(exported, "apart_graph", "apart"))


def test_encrypted_files_are_refused(newer: Exported, older: Exported) -> None:
    for exported in (newer, older):
        with pytest.raises(ModelError, match="the file is encrypted"):
            read(exported.folder / "encrypted.mindir")


def test_encrypted_files_are_read_with_their_key(newer: Exported, older: Exported) -> None:
    for exported in (newer, older):
        key = Key(b"0123456789ABCDEF", "AES-GCM")
        files = ModelFiles(exported.folder / "encrypted.mindir", None, {}, confined=True, key=key)
        assert len(list(read_source(files).model.graph)) > 1


# -- the original converter, which reads format 1 -----------------------------------------------------------------------


def original(model: Path, folder: Path) -> bytes:
    """What the released converter 2.0.0 makes of a file."""
    arguments = [str(X86_PYTHON), str(CHILDREN / "convert.py"), str(model), str(folder / "original")]
    env = {"PATH": os.environ["PATH"], "GLOG_v": "3"}
    subprocess.run(arguments, check=True, capture_output=True, timeout=300, env=env)
    return (folder / "original.ms").read_bytes()


def ours(model: Path, folder: Path) -> bytes:
    """What we make of it."""
    outcome = command(
        "--fmk=MINDIR", f"--modelFile={model}", f"--outputFile={folder / 'ours'}", "--saveType=MINDIR_LITE"
    )
    assert outcome.status == 0, outcome
    return (folder / "ours.ms").read_bytes()


@pytest.mark.parametrize("name", ["mobilenet", "mobilenet_small", "lstm_both", "lstm_cell", "transformer", "encoder"])
def test_files_for_devices_equal_those_of_the_original_converter(
    name: str, older: Exported, tmp_path: Path, tally: Tally
) -> None:
    """In the released runtime. Its LSTM ends the process for a batch of one, whoever wrote the file's other form."""
    if x86_missing():
        pytest.skip(x86_missing())
    path = older.folder / f"{name}.mindir"
    feed, wanted = older.recorded(name)
    inputs = [str(value.name) for value in read(path).model.graph.inputs]
    named: dict[str, NDArray[Any]] = dict(zip(inputs, feed, strict=True))
    made = {"original": (original(path, tmp_path), named), "ours": (ours(path, tmp_path), named)}
    found = run_x86(made, tmp_path)
    tally("MindSpore Lite 2.0.0 x86", "MINDIR networks")
    assert {key: outcome.error for key, outcome in found.items()} == {"original": "", "ours": ""}
    theirs, mine = found["original"].outputs, found["ours"].outputs
    for place, output in enumerate(read(path).model.graph.outputs):
        array: NDArray[Any] = mine[str(output.name)]
        assert is_close([array], [wanted[place]])
        assert any(is_close([array], [other]) for other in theirs.values() if other.shape == array.shape)
