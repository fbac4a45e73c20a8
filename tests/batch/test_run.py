"""Jobs that another machine runs: what it must have in common with this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from converter_lite.batch import run as batch_run
from converter_lite.batch.identity import file_digest, identity
from converter_lite.batch.jobs import Job
from converter_lite.batch.results import JobResult
from converter_lite.batch.run import JobTask, run_jobs
from converter_lite.execution.executor import LocalExecutor


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
        artefact = {"path": "out.onnx", "sha256": self.digest or file_digest(file)}
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
    [("", ""), ("identity", "read other files than this one"), ("digest", "wrote files that this one does not see")],
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


def test_a_machine_without_the_folder_says_so(tmp_path: Path) -> None:
    (result,) = run_jobs([Job("job", tmp_path / "not here", ())], {}, LocalExecutor(1))
    assert result.status == 1
    assert result.error.startswith(f"{tmp_path / 'not here'}: machine ")
    assert result.line().startswith(f"FAILED  job: {tmp_path / 'not here'}: machine ")
