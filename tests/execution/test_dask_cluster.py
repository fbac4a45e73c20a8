"""A cluster gives what a local run gives, loses nothing with a worker, and says clearly what is wrong with it."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

from converter_lite.batch import run as batch_run
from converter_lite.calibration import runner
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.runner import EVERYTHING, collect
from converter_lite.calibration.statistics import CalibrationStats
from converter_lite.errors import ClusterError, ModelError, UsageError
from converter_lite.execution import dask_cluster
from converter_lite.execution import environment as environment_module
from converter_lite.execution.opening import open_executor
from converter_lite.pipeline.request import ConvertRequest
from tests.cli.workshop import (
    FULL,
    GRAPH,
    WEIGHT,
    Outcome,
    Workshop,
    changed,
    command,
    environment,
    ini,
    model_proto,
    write_bins,
)
from tests.execution.sabotage import DyingObserver, DyingRunner, Pieces
from tests.support import build, normal, samples_of

SAMPLES = 40
"""Two shards and a half."""

SIDE = 64
"""Tensors of a picture of this size have values beyond the positions of REMOVAL_OUTLIER."""

METHODS = ("MAX_MIN", "KL", "REMOVAL_OUTLIER", "PERCENTILE", "MSE")

JOBS = """
[defaults]
saveType = "ONNX"
configFile = "quant.cfg"
modelFile = "model.onnx"
[[job]]
name = "first"
[[job]]
name = "impossible"
minCosine = 1.0
"""


def calibrated(method: str) -> dict[str, dict[str, str]]:
    return changed(
        FULL,
        full_quant_param={"activation_quant_method": method},
        data_preprocess_param={"calibrate_size": str(SAMPLES)},
    )


@pytest.fixture
def large(workshop: Workshop) -> Workshop:
    """The workshop with large samples."""
    onnx.save(model_proto(GRAPH.replace("8,8", f"{SIDE},{SIDE}")), workshop.model)
    write_bins(workshop.folder / "bins", SAMPLES, (1, SIDE, SIDE, 3))
    return workshop


def statistics(cluster: Any | None) -> CalibrationStats:
    """Statistics of large tensors, here or on a cluster."""
    model = build("g (float[1,3,70,70] x) => (float[1,3,68,68] y) { a = Conv(x, w) y = Relu(a) }", w=normal(3, 3, 3, 3))
    work = partial(collect, model, ["x", "a", "y"], EVERYTHING, samples_of(model, SAMPLES))
    if cluster is None:
        return work(CalibrationContext(threads=2))
    with open_executor(f"dask:{cluster.scheduler_address}", workers=1) as executor:
        return work(CalibrationContext(threads=2, executor=executor))


def assert_equal(found: CalibrationStats, expected: CalibrationStats) -> None:
    """Bit for bit."""
    assert found.tensors.keys() == expected.tensors.keys()
    for name, item in expected.tensors.items():
        assert item.outliers > 0
        assert replace(found[name], histogram=None) == replace(item, histogram=None)
        ours, theirs = found[name].histogram, item.histogram
        assert ours is not None and theirs is not None
        assert (ours.exponent, ours.first) == (theirs.exponent, theirs.first)
        np.testing.assert_array_equal(ours.counts, theirs.counts)


def test_statistics_of_a_cluster_are_those_of_a_local_run_though_a_worker_is_killed(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = statistics(None)
    monkeypatch.setattr(runner, "ShardObserver", partial(DyingObserver, tmp_path / "died"))
    assert_equal(statistics(cluster), expected)
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize("method", METHODS)
def test_calibration_on_a_cluster_gives_the_bytes_of_a_local_run(large: Workshop, flag: str, method: str) -> None:
    formats = "--saveType=ONNX,NAIVE_BUFFER"
    large.succeed(formats, config=calibrated(method), output="here")
    outcome = large.succeed(formats, flag, config=calibrated(method), output="there")
    assert "ranges of activations: found by a Dask cluster (tcp://" in outcome.out
    for suffix in (".onnx", ".nb"):
        assert Path(f"there{suffix}").read_bytes() == Path(f"here{suffix}").read_bytes()


def batch(shop: Workshop, *arguments: str, jobs: str = JOBS) -> Outcome:
    (shop.folder / "quant.cfg").write_text(ini(FULL))
    (shop.folder / "jobs.toml").write_text(jobs)
    return command("batch", "jobs.toml", *arguments)


def results() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().glob("*.onnx")}


def test_a_batch_on_a_cluster_gives_the_bytes_of_a_local_one_though_a_worker_is_killed(
    workshop: Workshop, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert batch(workshop, "-j2").status == 1
    expected = results()
    assert set(expected) == {"model.onnx", "first.onnx"}
    for name in ("first.onnx", "batch_result.json"):
        Path(name).unlink()

    with monkeypatch.context() as patch:
        patch.setattr(batch_run, "JobRunner", partial(DyingRunner, workshop.folder / "died"))
        outcome = batch(workshop, flag, "--junit=junit.xml")
    assert Path("died").exists()
    assert (outcome.status, outcome.err) == (1, "")
    assert outcome.out.splitlines()[-1] == "1 converted, 0 as before, 1 failed: batch_result.json"
    assert results() == expected
    suite = ElementTree.parse("junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")

    again = batch(workshop, flag, "--resume", jobs=JOBS.replace("1.0", "0.5"))
    assert (again.status, again.out.splitlines()[-1]) == (0, "1 converted, 1 as before, 0 failed: batch_result.json")
    for job in json.loads(Path("batch_result.json").read_text())["jobs"]:
        assert job["report"]["status"] == 0


def test_a_job_whose_workers_die_fails_alone(
    workshop: Workshop, cluster: Any, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    monkeypatch.setattr(batch_run, "JobRunner", partial(DyingRunner, workshop.folder / "died"))
    outcome = batch(workshop, flag, jobs=JOBS.replace("1.0", "0.5"))
    assert (outcome.status, outcome.out.splitlines()[-1]) == (
        1,
        "1 converted, 0 as before, 1 failed: batch_result.json",
    )
    assert "it took 1 worker(s) down, the last one at tcp://" in outcome.out
    (failed,) = (job for job in json.loads(Path("batch_result.json").read_text())["jobs"] if job["status"])
    assert "when memory runs out" in failed["error"]


def test_pieces_fail_one_by_one_and_come_back_in_order(cluster: Any) -> None:
    with open_executor(f"dask:{cluster.scheduler_address}", workers=1) as executor:
        found = dict(executor.run(Pieces(), [3, "refuse", 4], ordered=True))
        assert (list(found), found[0], found[2]) == ([0, 1, 2], 9, 16)
        assert isinstance(found[1], ModelError)
        assert str(found[1]) == "a node: it is refused\n  another model"
        with pytest.raises(ZeroDivisionError):
            list(executor.run(Pieces(), ["a defect of ours"]))


def use(executor: str) -> None:
    with open_executor(executor, workers=1):
        pass


def test_other_versions_are_refused_with_their_names(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_module, "installed", lambda packages: {"onnxruntime": "1.2.3"})
    with pytest.raises(ClusterError, match=r"worker tcp://.* \(here / there\): onnxruntime 1\.2\.3 / \d") as refused:
        use(f"dask:{cluster.scheduler_address}")
    assert refused.value.hint == "install the same versions on every machine"
    assert refused.value.exit_status == 1


def test_a_worker_without_this_program_is_refused(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def environment(): pass")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(dask_cluster, "environment", importlib.import_module("only_here").environment)
    with pytest.raises(ClusterError, match=r"worker tcp://.* cannot run this program: .*only_here"):
        use(f"dask:{cluster.scheduler_address}")


def test_another_kind_of_processor_is_a_warning(workshop: Workshop, flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_module, "_vector_units", lambda: frozenset({"avx9000"}))
    outcome = workshop.succeed(flag, config=FULL)
    assert "WARNING --executor=dask:tcp://" in outcome.err
    assert "has a processor of another kind than this machine" in outcome.err


@pytest.mark.parametrize(
    ("executor", "status", "message"),
    [
        ("dusk", 2, "--executor: 'dusk' is not one of local, dask, dask:ADDRESS; did you mean dask?"),
        ("local:x", 2, "'local:x' is not one of"),
        ("dask:", 2, "the address of the scheduler is empty"),
        ("", 2, "--executor: the value is empty"),
        ("dask:somewhere", 2, "not a scheduler address: missing port number in address 'somewhere'"),
        ("dask:http://somewhere:1", 2, "unknown address scheme 'http'"),
        ("dask:127.0.0.1:9", 1, "--executor=dask:127.0.0.1:9: no Dask scheduler answers\n  start one"),
    ],
)
def test_an_executor_that_is_not_there_is_one_clear_error(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, executor: str, status: int, message: str
) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 0.3)
    assert message in workshop.fail(status, f"--executor={executor}", config=FULL)
    outcome = batch(workshop, f"--executor={executor}")
    assert (outcome.status, results().keys()) == (status, {"model.onnx"})
    assert message in outcome.err


def test_the_port_of_a_worker_and_of_something_else_are_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="this is a Dask Worker, not a scheduler"):
        use(f"dask:{next(iter(cluster.scheduler.workers))}")
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 0.3)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ClusterError, match="no Dask scheduler answers"),
    ):
        use("dask:{}:{}".format(*silent.getsockname()))


def test_without_the_extra_it_is_refused_with_what_to_install(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "PACKAGES", ("json", "no_such_package"))
    message = workshop.fail(2, "--executor=dask", config=FULL)
    assert "--executor=dask: a Dask cluster needs no_such_package, which is not installed" in message
    assert "pip install 'converter-lite[dask]'" in message


def test_a_cluster_without_workers_is_not_waited_for_for_ever(threads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "WORKER_SECONDS", 0.3)
    monkeypatch.setattr(dask_cluster, "POLL_SECONDS", 0.1)
    with pytest.raises(ClusterError, match="the cluster has no worker after"):
        use(f"dask:{threads.scheduler_address}")
    from distributed import Client

    with Client(threads, set_as_default=False) as client:
        executor = dask_cluster.DaskExecutor(client, "--executor", is_remote=True)
        with pytest.raises(ClusterError, match="all workers have been gone"):
            list(executor.run(Pieces(), [1]))
        monkeypatch.setattr(dask_cluster, "WORKER_SECONDS", 60)
        threading.Timer(0.3, threads.close).start()
        with pytest.raises(ClusterError, match="the connection to the scheduler is lost"):
            list(executor.run(Pieces(), [1]))


def test_what_would_have_no_effect_or_two_meanings_is_said(workshop: Workshop, flag: str) -> None:
    assert "--executor=dask:no:1: has no effect" in workshop.succeed("--executor=dask:no:1", config=WEIGHT).err
    outcome = batch(workshop, flag, "-j2")
    assert (outcome.status, "-j: the cluster decides" in outcome.err) == (2, True)
    outcome = batch(workshop, "--set", "executor=dask")
    assert (outcome.status, "unknown flag 'executor'" in outcome.err) == (2, True)
    with pytest.raises(UsageError, match="samples from Python are in this process alone"):
        ConvertRequest(Path("m.onnx"), Path("out"), executor="dask", calibration_data=[np.zeros(3)])


def test_no_callback_of_the_garbage_collector_can_swallow_ctrl_c() -> None:
    """What is raised in one is printed and forgotten."""
    with open_executor("dask", workers=1):
        names = [type(getattr(callback, "__self__", callback)).__module__ for callback in gc.callbacks]
    assert not [name for name in names if name.startswith("distributed")]


def test_workers_leave_nothing_among_the_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_executor("dask", workers=1):
        assert [path.name[:16] for path in tmp_path.iterdir()] == [".converter_lite_"]
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_jobs_and_the_workers_that_were_started_for_them(workshop: Workshop) -> None:
    (workshop.folder / "quant.cfg").write_text(ini(FULL))
    (workshop.folder / "jobs.toml").write_text(JOBS.replace("1.0", "0.5"))
    code = """if True:
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
        from converter_lite.cli.converter_lite import main
        if __name__ == "__main__":
            main()
        """
    line = [sys.executable, "-c", code, "batch", "jobs.toml", "--executor=dask"]
    process = subprocess.Popen(
        line,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "first: .onnx" in first
    assert err == "interrupted; jobs that are not done: 1; --resume continues\n"
    assert not list(workshop.folder.glob(".*")), "nothing half-written is left"
    outcome = command("batch", "jobs.toml", "--resume")
    assert (outcome.status, "1 converted, 1 as before" in outcome.out) == (0, True)
