"""kill -9 at any moment: outputs are old or new, never half written, and the next run gives the same bytes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from tests.cli.workshop import FULL, WEIGHT, Workshop, changed, environment, ini, model_proto, write_bins
from tests.faults.forking import Forker

pytestmark = pytest.mark.once

RUNS = 20
SAMPLES = 40
"""More than the statistics that one state of the cache covers, so that kills fall between two states."""

CONVERT = [
    *("converter_lite", "--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=results/out", "--configFile=quant.cfg"),
    *("--saveType=ONNX,MINDIR_LITE", "--cache=cache", "--savePlan=results/plan.json", "--threads=2", "--quiet"),
]
KL = {"activation_quant_method": "KL"}
OPT = ["opt", "--model_file=model.onnx", "--optimize_out=results/out", "--quant_model=true", "--valid_targets=x86"]


@pytest.fixture
def shop(workshop: Workshop) -> Workshop:
    """Something to calibrate, and the files of an earlier run in the way."""
    write_bins(workshop.folder / "bins", SAMPLES, (1, 8, 8, 3))
    config = changed(FULL, data_preprocess_param={"calibrate_size": str(SAMPLES)})
    (workshop.folder / "quant.cfg").write_text(ini(config), encoding="utf-8")
    (workshop.folder / "results").mkdir()
    return workshop


def results(shop: Workshop) -> dict[str, bytes]:
    """The files that a user sees."""
    return {path.name: path.read_bytes() for path in (shop.folder / "results").iterdir() if path.name[0] != "."}


def hidden(shop: Workshop) -> list[Path]:
    return [path for path in (shop.folder / "results").iterdir() if path.name[0] == "."]


def put_old(shop: Workshop, names: list[str]) -> dict[str, bytes]:
    old = {name: f"old {name}".encode() for name in names}
    for name, content in old.items():
        (shop.folder / "results" / name).write_bytes(content)
    return old


def assert_each_is_old_or_new(found: dict[str, bytes], old: dict[str, bytes], new: dict[str, bytes]) -> None:
    assert set(found) == set(new)
    for name, content in found.items():
        assert content in (old[name], new[name]), name


@pytest.mark.parametrize("command", [CONVERT, OPT], ids=["converter_lite", "opt"])
def test_a_killed_run_leaves_whole_files_and_the_next_one_the_same_bytes(
    shop: Workshop, forker: Forker, command: list[str]
) -> None:
    whole = forker(shop.folder, command)
    assert whole.status == 0, whole
    new = results(shop)
    rng = random.Random(20)
    killed, seconds = 0, whole.seconds
    for _ in range(RUNS if command is CONVERT else RUNS // 4):
        old = put_old(shop, list(new))
        for path in (shop.folder / "cache").glob("*"):
            if rng.random() < 0.3:
                path.unlink()
        ended = forker(shop.folder, command, after=rng.random() * seconds)
        killed += ended.status == -signal.SIGKILL
        if ended.status == 0:  # faster than the first run: the machine is less busy now
            seconds = ended.seconds / 2
        assert_each_is_old_or_new(results(shop), old, new)
    assert killed > 0
    assert forker(shop.folder, command).status == 0
    assert results(shop) == new
    assert hidden(shop) == []


def test_a_run_that_dies_at_any_change_of_the_file_system_leaves_whole_files(shop: Workshop, forker: Forker) -> None:
    (shop.folder / "quant.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    command = [flag for flag in CONVERT if "cache" not in flag]
    assert forker(shop.folder, command).status == 0
    new = results(shop)
    event, status, mixed = 0, -signal.SIGKILL, 0
    while status == -signal.SIGKILL:
        event += 1
        old = put_old(shop, list(new))
        status = forker(shop.folder, command, event=event).status
        found = results(shop)
        assert_each_is_old_or_new(found, old, new)
        mixed += found not in (old, new)
    assert status == 0
    assert event > 10
    assert mixed > 0, "no kill fell between two of the renames"
    assert results(shop) == new
    assert hidden(shop) == []


@pytest.mark.parametrize("command", [CONVERT, OPT], ids=["converter_lite", "opt"])
def test_ctrl_c_at_any_change_of_the_file_system_leaves_everything_as_it_was(
    shop: Workshop, forker: Forker, command: list[str]
) -> None:
    (shop.folder / "quant.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    command = [flag for flag in command if "cache" not in flag]
    assert forker(shop.folder, command).status == 0
    new = results(shop)
    for event in (1, 2, 4, 6):
        old = put_old(shop, list(new))
        ended = forker(shop.folder, command, event=event, signal=int(signal.SIGINT))
        assert ended.status in (0, 130)
        assert results(shop) == (old if ended.status else new)
        if ended.status:
            assert "interrupted; no result was written" in ended.text
        assert hidden(shop) == []


def test_two_runs_to_the_same_output_leave_the_whole_result_of_one(shop: Workshop, forker: Forker) -> None:
    def command(bits: int) -> list[str]:
        text = ini(changed(WEIGHT, common_quant_param={"bit_num": str(bits)}))
        (shop.folder / f"{bits}.cfg").write_text(text, encoding="utf-8")
        flags = ["--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=results/out", "--saveType=ONNX", "--minCosine=0"]
        return ["converter_lite", *flags, f"--configFile={bits}.cfg"]

    alone = []
    for bits in (4, 8):
        assert forker(shop.folder, command(bits)).status == 0
        alone.append(results(shop))
    assert alone[0] != alone[1]
    for _ in range(3):
        assert forker(shop.folder, command(4), command(8)).statuses == [0, 0]
        assert results(shop) in alone
        assert hidden(shop) == []


def test_a_batch_that_is_killed_goes_on_where_it_stopped(shop: Workshop) -> None:
    (shop.folder / "quant.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    for name in ("one", "two"):
        onnx.save(model_proto(), shop.folder / f"{name}.onnx")
    line = [sys.executable, "-m", "converter_lite", "batch", "one.onnx", "two.onnx", "--configFile=quant.cfg"]
    line += ["--outputDir=results", "--set=saveType=ONNX"]
    state = shop.folder / "batch_result.json"
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, env=environment()) as process:
        while not state.exists() and process.poll() is None:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    assert [job["name"] for job in json.loads(state.read_text(encoding="utf-8"))["jobs"]] == ["one"]
    first = results(shop)["one.onnx"]
    done = subprocess.run([*line, "--resume"], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert "1 converted, 1 as before, 0 failed" in done.stdout
    assert set(results(shop)) == {"one.onnx", "two.onnx"}
    assert results(shop)["one.onnx"] == first == results(shop)["two.onnx"]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are found in /proc")
def test_a_batch_that_is_killed_takes_its_jobs_along(shop: Workshop) -> None:
    samples = 1500  # a second of work, so that nothing is done when the batch dies
    write_bins(shop.folder / "bins", samples, (1, 8, 8, 3))
    config = changed(FULL, data_preprocess_param={"calibrate_size": str(samples)}, full_quant_param=KL)
    (shop.folder / "quant.cfg").write_text(ini(config), encoding="utf-8")
    line = [sys.executable, "-m", "converter_lite", "batch", "model.onnx", "--configFile=quant.cfg"]
    line += ["--outputDir=results", "--set=saveType=ONNX"]
    temporary = shop.folder / "temporary"
    temporary.mkdir()
    told = {**environment(), "TMPDIR": str(temporary)}
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, env=told) as process:
        while not hidden(shop):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.1)  # a folder that is made at this instant is left to the next conversion
        (job,) = children(process.pid)
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while is_running(job) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(job)
    assert results(shop) == {}
    assert hidden(shop) == []
    assert len(list(temporary.iterdir())) == 1
    without = [argument for argument in line if "configFile" not in argument]
    assert subprocess.run(without, stdout=subprocess.DEVNULL, env=told, check=False).returncode == 0
    assert list(temporary.iterdir()) == [], "what a killed batch left is removed by the next one"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # what has ended and was not waited for has none
    except OSError:
        return False


def children(parent: int) -> list[int]:
    files = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]
