"""``opt --model_set_dir``."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

from converter_lite.formats.paddle.nb.parse import parse
from tests.cli.test_opt import run
from tests.formats.paddle.inference_models import conv, fake_quantized_model, float_model, program_of, random, save
from tests.formats.paddle.models import small_network

TAILORING = [
    ".tailored_kernels_list",
    ".tailored_kernels_source_list",
    ".tailored_ops_list",
    ".tailored_ops_source_list",
]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Three models of different operators, and things beside them that are none."""
    folder = tmp_path / "models"
    folder.mkdir()
    save(folder / "float.v1", *float_model())
    save(folder / "int8", *fake_quantized_model())
    parameters = {"w": random(4, 3, 3, 3)}
    save(folder / "small", program_of([conv("x", "w", "y")], parameters, {"x": (1, 3, 8, 8)}, "y"), parameters)
    (folder / ".cache").mkdir()
    (folder / "README").write_text("three models")
    return folder


@pytest.mark.parametrize("flag", ["model_set_dir", "model_set"])
def test_every_model_gets_its_own_file_and_the_originals_lines(
    flag: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(f"--{flag}={models}", f"--optimize_out={out}", "--valid_targets=x86") == 0
    assert sorted(path.name for path in out.iterdir()) == ["float.v1.nb", "int8.nb", "small.nb"]
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        line
        for name in ("float.v1", "int8", "small")
        for line in (
            f"Loading topology data from {models}/{name}/inference.pdmodel",
            f"Loading params data from {models}/{name}/inference.pdiparams",
            "1. Model is successfully loaded!",
        )
    ] + [f"2. Model is optimized and saved into {out}/{name}.nb successfully" for name in ("float.v1", "int8", "small")]
    assert "Warning: int8: x86: weights stay int8" in shown.err
    for name in ("float.v1", "int8", "small"):
        assert run(f"--model_dir={models / name}", f"--optimize_out={tmp_path / 'one'}", "--valid_targets=x86") == 0
        assert (out / f"{name}.nb").read_bytes() == (tmp_path / "one.nb").read_bytes()


def test_the_lists_for_tailoring_are_one_union_over_all_models(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(f"--model_set_dir={models}", f"--optimize_out={out}", "--record_tailoring_info=true") == 0
    assert sorted(path.name for path in out.iterdir() if path.suffix != ".nb") == TAILORING
    programs = [parse(path.read_bytes()).program for path in out.glob("*.nb")]
    operators = sorted({op.type for program in programs for op in program.main.operators})
    assert (out / ".tailored_ops_list").read_text().splitlines() == operators
    kernels = (out / ".tailored_kernels_list").read_text().splitlines()
    assert kernels == sorted(set(kernels))
    assert {"conv2d,kARM,kFloat,kNCHW,def", "conv2d,kARM,kInt8,kNCHW,fp32_out"} <= set(kernels)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"operators information of tailored model is stored into: {out}/.tailored_ops_list",
        f"kernels information of tailored model is stored into: {out}/.tailored_kernels_list",
    ]


@pytest.mark.parametrize("kind", ["naive_buffer", "protobuf"])
def test_if_one_model_fails_all_such_models_are_named_and_nothing_is_written(
    kind: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    program = models / "float.v1" / "inference.pdmodel"
    program.write_bytes(program.read_bytes()[:200])
    (models / "no_model").mkdir()
    flags = (f"--model_set_dir={models}", f"--optimize_out={out}", "--record_tailoring_info=true")
    assert run(*flags, f"--optimize_out_type={kind}") == 1
    told = capsys.readouterr()
    assert "2 of 4 models cannot be converted, and no file was written:\n  float.v1: " in told.err
    assert "\n  no_model: " in told.err
    assert "saved into" not in told.out
    assert not (tmp_path / "new").exists()


def test_an_earlier_result_survives_a_model_that_fails(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(f"--model_set_dir={models}", f"--optimize_out={out}") == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    (models / "small" / "inference.pdiparams").write_bytes(b"")
    assert run(f"--model_set_dir={models}", f"--optimize_out={out}", "--valid_targets=x86") == 1
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_results_may_stand_beside_the_models(models: Path) -> None:
    for _ in range(2):
        assert run(f"--model_set_dir={models}", f"--optimize_out={models / 'out'}") == 0
    assert sorted(path.name for path in (models / "out").iterdir()) == ["float.v1.nb", "int8.nb", "small.nb"]


def test_files_of_other_names_are_named_once_for_all_models(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for name in ("a", "b"):
        folder = save(tmp_path / "models" / name, *float_model())
        (folder / "inference.pdmodel").rename(folder / "net.topology")
        (folder / "inference.pdiparams").rename(folder / "net.weights")
    flags = (f"--model_set_dir={tmp_path / 'models'}", f"--optimize_out={tmp_path / 'out'}")
    assert run(*flags) == 1
    assert run(*flags, "--model_filename=net.topology", "--param_filename=net.weights") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.nb", "b.nb"]


def test_the_models_of_a_set_may_be_onnx_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "models" / name).mkdir(parents=True)
        ir.save(small_network(), tmp_path / "models" / name / "net.onnx")
    flags = ("--model_filename=net.onnx", "--valid_targets=x86")
    assert run(f"--model_set_dir={tmp_path / 'models'}", f"--optimize_out={tmp_path / 'out'}", *flags) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.nb", "b.nb"]


def test_protobuf_results_are_a_folder_for_each_model(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    flags = ("--optimize_out_type=protobuf", "--valid_targets=x86")
    assert run(f"--model_set_dir={models}", f"--optimize_out={out}", *flags) == 0
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        f"{name}/{part}" for name in ("float.v1", "int8", "small") for part in ("model", "params")
    ]
    assert "saved into" not in capsys.readouterr().out


def test_protobuf_results_do_not_replace_the_models(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--optimize_out_type=protobuf", "--valid_targets=arm")
    assert run(f"--model_set_dir={models}", f"--optimize_out={tmp_path / 'made'}", *flags) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "made").rglob("*") if path.is_file()}
    assert run(f"--model_set_dir={tmp_path / 'made'}", f"--optimize_out={tmp_path / 'made'}", *flags) == 1
    assert capsys.readouterr().err.count("the output would overwrite an input") == 3
    assert run(f"--model_set_dir={models}", f"--optimize_out={models}", *flags) == 1
    assert capsys.readouterr().err.count("would be found in its place") == 3
    assert {path: path.read_bytes() for path in before} == before


def test_results_have_no_place_in_the_directory_of_a_model(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be taken for that of the results, and its model left out."""
    before = sorted(models.rglob("*"))
    assert run(f"--model_set_dir={models}", f"--optimize_out={models / 'small'}") == 2
    assert "the results would stand among the files of a model" in capsys.readouterr().err
    assert sorted(models.rglob("*")) == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model_dir=m"], "--model_dir is for a single model"),
        (["--model_file=m"], "--model_file is for a single model"),
        (["--configFile=c"], "--configFile is for a single model"),
        (["--model_set=elsewhere"], "mean the same and differ"),
        (["--print_model_ops"], "--print_model_ops shows a single model"),
        (["--optimize_out="], "a directory is required"),
        (["--optimize_out=models/README"], "a directory is required"),
        (["--model_set_dir=nowhere"], "does not exist"),
        (["--model_set_dir=models/small"], "holds no model"),
        (["--sparse_threshold=2"], "not from 0 to 1"),
    ],
)
def test_what_does_not_go_with_a_set_of_models_is_reported(
    flags: list[str],
    message: str,
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(models.parent)
    assert run("--model_set_dir=models", "--optimize_out=out", *flags) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


def test_models_whose_files_would_be_one_are_refused(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (models / "small").rename(models / "int8.nb")
    assert run(f"--model_set_dir={models}", f"--optimize_out={tmp_path / 'out'}", "--valid_targets=x86") != 0
    assert "int8 and int8.nb would be written to one file" in capsys.readouterr().err
