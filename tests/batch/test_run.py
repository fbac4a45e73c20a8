"""Jobs that another machine runs: what it must have in common with this one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from converter_lite.batch import run as batch_run
from converter_lite.batch.identity import identity
from converter_lite.batch.jobs import Job
from converter_lite.batch.junit import junit_xml
from converter_lite.batch.results import JobResult, load_results
from converter_lite.batch.run import JobTask, run_jobs
from converter_lite.cli.batch import run_batch
from converter_lite.errors import ClusterError, ConverterError
from converter_lite.execution.executor import LocalExecutor, Result, Task, Work
from converter_lite.system.files import content_digest


class Elsewhere(LocalExecutor):
    """This machine as another one."""

    is_remote = True


class Written:
    """Instead of a conversion: a file is written, and a result told that may be wrong."""

    identity, digest = "", ""

    def __init__(self, threads: int) -> None:
        del threads

    def __call__(self, task: JobTask) -> JobResult:
        job = task.job
        file = job.folder / "out.onnx"
        file.write_bytes(b"model")
        artefact = {"path": "out.onnx", "sha256": self.digest or content_digest(file), "bytes": 5, "accuracy": ()}
        return JobResult(job.name, 0, 1.0, self.identity or identity(job), {"artefacts": [artefact]})

    def stop(self) -> None:
        """Nothing runs on."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    (tmp_path / "model.onnx").write_bytes(b"a model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(batch_run, "JobRunner", Written)
    return Job("job", Path(), (("modelFile", "model.onnx"), ("outputFile", "out")))


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("", ""),
        ("identity", "read files that differ from those here"),
        ("digest", "wrote files that this one does not see"),
    ],
)
def test_a_result_counts_only_if_both_machines_see_the_same_files(
    job: Job, monkeypatch: pytest.MonkeyPatch, attribute: str, message: str
) -> None:
    if attribute:
        monkeypatch.setattr(Written, attribute, "0" * 64)
    (result,) = run_jobs([job], {}, Elsewhere(1))
    assert result.status == (1 if attribute else 0)
    assert message in result.error
    assert ("same files at the same paths" in result.error) == bool(attribute)
    (here,) = run_jobs([job], {}, LocalExecutor(1))
    assert here.status == 0


class Lost(LocalExecutor):
    """A cluster that is lost after one piece."""

    def run(
        self, work: Work[Task, Result], tasks: Sequence[Task], *, ordered: bool = False
    ) -> Generator[tuple[int, Result | ConverterError], None, None]:
        yield from super().run(work, tasks[:1], ordered=ordered)
        raise ClusterError("the scheduler is lost", where="--executor=dask:x", hint="start it again")


def test_a_batch_whose_cluster_is_lost_keeps_what_is_done_and_says_what_is_not(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [job, replace(job, name="other")]
    files = (Path("result.json"), Path("junit.xml"))
    assert run_batch(jobs, Lost(1), result_file=files[0], junit=files[1], resume=False, suite="s") == 1
    shown = capsys.readouterr()
    assert shown.err == (
        "ERROR --executor=dask:x: the scheduler is lost\n  start it again\n  jobs that are not done: 1; --resume continues\n"
    )
    assert shown.out.endswith("1 converted, 0 as before, 0 failed: result.json\n")
    assert list(load_results(Path("result.json"))) == ["job"]
    assert 'tests="1"' in Path("junit.xml").read_text()


def test_a_machine_without_the_folder_says_so(tmp_path: Path) -> None:
    (result,) = run_jobs([Job("job", tmp_path / "not here", ())], {}, LocalExecutor(1))
    assert result.status == 1
    assert result.error.startswith(f"{tmp_path / 'not here'}: machine ")
    assert result.line().startswith(f"FAILED  job: {tmp_path / 'not here'}: machine ")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("", ""),
        ("no such file\n  give another", "no such file"),
        (
            "a .ms file cannot express:\n  a (Loop): unknown\n  b (If): unknown",
            "a .ms file cannot express: a (Loop): unknown",
        ),
    ],
)
def test_the_reason_in_one_line_names_what_its_first_line_announces(error: str, reason: str) -> None:
    result = JobResult("job", 1, 0.0, "", {}, error=error)
    assert result.reason == reason
    assert f'message="{reason}"' in junit_xml([result], suite="s")


@pytest.mark.parametrize("error", ["", "no space"])
def test_a_name_with_a_line_break_is_one_line(error: str) -> None:
    line = JobResult("line\nbreak", 1 if error else 0, 0.0, "", {}, error=error).line()
    assert "\n" not in line
    assert " line break: " in line
