"""No space, no permission: the reason is named, and nothing changes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.formats.registry import readable
from tests.cli.workshop import (
    FULL,
    WEIGHT,
    Workshop,
    changed,
    child,
    command,
    environment,
    ini,
    model_proto,
    write_pictures,
)
from tests.faults.forking import Forker, drop_capabilities
from tests.formats.paddle.inference_models import float_model, save
from tests.support import normal

pytestmark = pytest.mark.once

CONVERT = ["converter_lite", "--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=ONNX"]
CONFIGURED = [*CONVERT, "--configFile=quant.cfg"]


def large_model() -> onnx.ModelProto:
    """Its weights are larger than the small disk."""
    return model_proto("g (float[N,128] x) => (float[N,256] y) { y = MatMul(x, w) }", w=normal(128, 256))


# -- a full disk ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ONNX", "MINDIR_LITE", "NAIVE_BUFFER"])
def test_a_full_disk_is_reported_and_the_old_file_stays(workshop: Workshop, small_disk: Path, kind: str) -> None:
    onnx.save(large_model(), "model.onnx")
    for suffix in ("onnx", "ms", "nb"):
        (small_disk / f"out.{suffix}").write_bytes(b"old")
    before = workshop.content()
    message = workshop.fail(1, f"--saveType={kind}", output="disk/out")
    assert "cannot write: No space left on device" in message
    assert workshop.content() == before


def test_reports_that_do_not_fit_on_the_disk_stop_the_conversion(workshop: Workshop, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(56 << 10))
    reports = {"common_quant_param": {"debug_info_save_path": "disk/reports"}}
    message = workshop.fail(1, config=changed(FULL, **reports))
    assert "No space left on device" in message


def test_statistics_that_do_not_fit_on_the_disk_are_a_warning(workshop: Workshop, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(60 << 10))
    outcome = workshop.convert("--cache=disk/cache", config=FULL)
    assert outcome.status == 0
    assert "statistics cannot be kept" in outcome.err
    assert list(small_disk.glob("cache/*")) == []


def test_opt_on_a_full_disk_says_so(workshop: Workshop, small_disk: Path, forker: Forker) -> None:
    onnx.save(large_model(), "model.onnx")
    ended = forker(workshop.folder, ["opt", "--model_file=model.onnx", "--optimize_out=disk/out"])
    assert ended.status == 1
    assert "No space left on device" in ended.text
    assert list(small_disk.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("module", ["converter_lite", "converter_lite.cli.opt"])
def test_standard_output_on_a_full_disk_is_no_traceback(workshop: Workshop, module: str) -> None:
    flags = CONVERT[1:] if module == "converter_lite" else ["--model_file=model.onnx", "--optimize_out=out"]
    with Path("/dev/full").open("w") as full:
        line = [sys.executable, "-m", module, *flags]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


# -- permissions ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(forker: Forker) -> Callable[..., object]:
    """A forker whose commands have no more rights than another user."""
    pid = os.fork()
    if pid == 0:
        try:
            drop_capabilities()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        pytest.skip("the rights of root cannot be given up here, and root may do anything")
    return lambda folder, line: forker(folder, line, plain=True)


def prepare(workshop: Workshop) -> None:
    (workshop.folder / "quant.cfg").write_text(ini(FULL), encoding="utf-8")
    save(workshop.folder / "paddle", *float_model())
    (workshop.folder / "cache").mkdir()
    (workshop.folder / "results").mkdir()
    (workshop.folder / "plan.json").write_text("{}", encoding="utf-8")
    command(*CONVERT[1:-1], "--saveType=MINDIR_LITE,NAIVE_BUFFER")


UNREADABLE = {
    "model.onnx": CONVERT,
    "out.ms": ["converter_lite", "--fmk=MSLITE", "--modelFile=out.ms", "--outputFile=again", "--saveType=ONNX"],
    "paddle/inference.pdmodel": [
        *("converter_lite", "--fmk=PADDLE", "--modelFile=paddle", "--outputFile=again", "--saveType=ONNX"),
    ],
    "paddle/inference.pdiparams": ["opt", "--model_dir=paddle", "--optimize_out=again"],
    "paddle": ["opt", "--model_dir=paddle", "--optimize_out=again"],
    "out.nb": ["opt", "--model_file=out.nb", "--optimize_out=again"],
    "quant.cfg": CONFIGURED,
    "bins/002.bin": CONFIGURED,
    "bins": CONFIGURED,
    "plan.json": [*CONFIGURED, "--plan=plan.json"],
}
"""File or folder that may not be read -> a command that needs it."""


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_may_not_be_read_is_named(workshop: Workshop, plain: Callable[..., object], name: str) -> None:
    prepare(workshop)
    before = workshop.content()
    (workshop.folder / name).chmod(0)
    ended = plain(workshop.folder, UNREADABLE[name])
    (workshop.folder / name).chmod(0o755)
    assert ended.status in (1, 2), ended
    assert "ermission denied" in ended.text or "does not exist" in ended.text, ended
    assert name.split("/")[0] in ended.text
    assert workshop.content() == before


@pytest.mark.parametrize("flag", ["--outputFile=results/again", "--savePlan=results/p.json", "debug_info_save_path"])
def test_a_folder_that_may_not_be_written_is_named(workshop: Workshop, plain: Callable[..., object], flag: str) -> None:
    prepare(workshop)
    line = [*(part for part in CONFIGURED if "outputFile" not in part), "--outputFile=again"]
    if flag.startswith("--output"):
        line[-1] = flag
    elif flag.startswith("--"):
        line.append(flag)
    else:
        config = changed(FULL, common_quant_param={flag: "results/reports"})
        (workshop.folder / "quant.cfg").write_text(ini(config), encoding="utf-8")
    before = workshop.content()
    (workshop.folder / "results").chmod(0o555)
    ended = plain(workshop.folder, line)
    assert ended.status == 1, ended
    assert "cannot write: Permission denied" in ended.text
    assert "results" in ended.text
    assert workshop.content() == before


def test_a_cache_that_may_not_be_written_is_a_warning(workshop: Workshop, plain: Callable[..., object]) -> None:
    prepare(workshop)
    (workshop.folder / "cache").chmod(0o555)
    ended = plain(workshop.folder, [*CONFIGURED, "--cache=cache"])
    assert ended.status == 0, ended
    assert "statistics cannot be kept (Permission denied)" in ended.text


@pytest.mark.skipif(os.name != "posix", reason="file modes are a matter of POSIX systems")
def test_results_can_be_read_by_others_whatever_a_temporary_file_allows(workshop: Workshop) -> None:
    old = os.umask(0o077)
    try:
        workshop.succeed("--json=result.json")
    finally:
        os.umask(old)
    assert {(workshop.folder / name).stat().st_mode & 0o777 for name in ("out.onnx", "result.json")} == {0o644}


# -- names ------------------------------------------------------------------------------------------------------------

NAMES = ["two words", "模型", "выход", 'a\'b "c"', "-x", "é\u0301", "100%"]


@pytest.mark.parametrize("name", NAMES)
def test_names_may_have_blanks_quotes_and_any_letters(workshop: Workshop, name: str) -> None:
    folder = workshop.folder / name / "deep"
    (folder / "pictures of cats").mkdir(parents=True)
    for path in (workshop.folder / "bins").iterdir():
        path.rename(folder / "pictures of cats" / f"{name} {path.name}")
    workshop.model.rename(folder / f"{name}.onnx")
    path = f"x:{folder}/../deep/pictures of cats"
    config = changed(FULL, data_preprocess_param={"calibrate_path": path})
    if '"' in name:
        config = changed(FULL, data_preprocess_param={"calibrate_path": "x:link"})  # the grammar deletes double quotes
        (workshop.folder / "link").symlink_to(folder / "pictures of cats")
    output = f"{folder}/../results/{name}"
    workshop.succeed(config=config, model=f"{folder}/../deep/{name}.onnx", output=output)
    onnx.checker.check_model(f"{workshop.folder}/{name}/results/{name}.onnx")


def test_a_path_that_leads_up_names_the_same_file(workshop: Workshop) -> None:
    (workshop.folder / "sub").mkdir()
    before = workshop.model.read_bytes()
    assert "overwrite an input" in workshop.fail(2, output="sub/../model")
    assert workshop.model.read_bytes() == before


# -- damaged inputs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_model_is_refused_whatever_wrote_it(workshop: Workshop, share: float) -> None:
    prepare(workshop)
    frameworks = {"ONNX": "model.onnx", "MSLITE": "out.ms", "PADDLE": "paddle/inference.pdiparams"}
    for fmk, name in frameworks.items():
        path = workshop.folder / name
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])
        model = "paddle" if fmk == "PADDLE" else name
        flags = [f"--fmk={fmk}", f"--modelFile={model}", "--outputFile=again", "--saveType=ONNX"]
        outcome = command(*flags)
        assert outcome.status in (1, 2), (fmk, outcome)
        assert outcome.err.startswith("ERROR ")
        assert not (workshop.folder / "again.onnx").exists()


def test_a_truncated_picture_is_named(workshop: Workshop) -> None:
    write_pictures(workshop.folder / "pictures", 4)
    path = workshop.folder / "pictures" / "002.png"
    path.write_bytes(path.read_bytes()[:-60])
    data = {"calibrate_path": "x:pictures", "input_type": "IMAGE"}
    assert "002.png" in workshop.fail(1, config=changed(FULL, data_preprocess_param=data))


def test_a_pipe_among_the_samples_is_refused_instead_of_waited_for(workshop: Workshop) -> None:
    (workshop.folder / "bins" / "001.bin").unlink()
    os.mkfifo(workshop.folder / "bins" / "001.bin")
    outcome = workshop.convert(config=FULL)
    assert outcome.status == 1
    assert "not a file: 001.bin" in outcome.err


def test_weights_that_are_not_numbers_are_a_plain_failure(workshop: Workshop) -> None:
    onnx.save(model_proto(w_fc=np.full((5, 20), np.nan, np.float32)), "model.onnx")
    assert workshop.convert(config=WEIGHT).status == 1


def test_the_command_without_a_home_or_locale_works(workshop: Workshop) -> None:
    done = child(*CONVERT[1:], HOME="/nonexistent", LANG="C", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams_are_as_good_as_none(workshop: Workshop, closed: str) -> None:
    line = f'"{sys.executable}" -m converter_lite --fmk=ONNX --modelFile=model.onnx --outputFile=out --saveType=ONNX {closed}'
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert onnx.load(workshop.folder / "out.onnx").graph.node


@pytest.mark.parametrize("flag", ["--configFile=pipe", "--plan=pipe"])
def test_a_pipe_is_no_file_to_read(workshop: Workshop, flag: str) -> None:
    os.mkfifo(workshop.folder / "pipe")
    workshop.model.write_bytes(b"no model")  # which is not read first
    message = workshop.fail(2, flag, config=None if "config" in flag else WEIGHT)
    assert "pipe" in message and "this is not a regular file" in message


@pytest.mark.parametrize("framework", readable())
def test_a_pipe_is_no_model(workshop: Workshop, framework: str) -> None:
    os.mkfifo(workshop.folder / "pipe")
    outcome = command(f"--fmk={framework}", "--modelFile=pipe", "--outputFile=out")
    assert outcome.status in (1, 2)
    assert "ERROR pipe: " in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "pipe.pdmodel"),
        ("inspect", "--kernels", "pipe.json"),
        ("compare", "model.onnx", "pipe.json", "--inputs=pipe.npz"),
        ("compare", "model.onnx", "pipe.npz", "--inputs=pipe.npz"),
    ],
)
def test_a_pipe_is_nothing_to_examine(workshop: Workshop, arguments: tuple[str, ...]) -> None:
    for suffix in ("pdmodel", "json", "npz"):
        os.mkfifo(workshop.folder / f"pipe.{suffix}")
    outcome = command(*arguments)
    assert outcome.status == 1
    assert "this is not a regular file" in outcome.err


def test_a_working_directory_that_was_removed_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = [sys.executable, "-m", "converter_lite", "--fmk=ONNX", "--modelFile=/model.onnx", "--outputFile=out"]
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", str(gone), *line], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 1
    assert "the working directory does not exist any more" in done.stderr
