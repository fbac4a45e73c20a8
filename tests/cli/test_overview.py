"""``converter_lite overview``: a page about a saved batch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.workshop import FULL, Workshop, command, ini

JOBS = """
outputDir = "out"
[defaults]
modelFile = "model.onnx"
saveType = "ONNX"
[[job]]
name = "good one"
configFile = "quant.cfg"
report = "out/good.html"
[[job]]
name = "strict <one>"
configFile = "quant.cfg"
minCosine = 0.9999999
[[job]]
name = "missing"
modelFile = "nothing.onnx"
"""


@pytest.mark.parametrize(
    "job",
    [
        {"report": None},
        {"report": {"artefacts": [{}]}},
        {"report": {"configuration": None}},
        {"seconds": "long"},
    ],
)
def test_a_result_with_parts_that_no_batch_writes_is_refused(workshop: Workshop, job: dict[str, object]) -> None:
    jobs = [{"name": "net", "status": 0, "seconds": 1.0, "identity": "", "report": {}, **job}]
    Path("batch.json").write_text(json.dumps({"jobs": jobs}), encoding="utf-8")
    outcome = command("overview", "batch.json")
    assert (outcome.status, "batch.json: this is not a batch result" in outcome.err) == (2, True)
    assert not Path("batch.html").exists()


@pytest.fixture
def batch(workshop: Workshop) -> Workshop:
    """A folder with a batch whose results are in ``results/``, seen from another folder than that of its jobs."""
    (workshop.folder / "quant.cfg").write_text(ini(FULL), encoding="utf-8")
    (workshop.folder / "jobs.toml").write_text(JOBS, encoding="utf-8")
    Path("results").mkdir()
    assert command("batch", "jobs.toml", "--json=results/batch.json").status == 1
    return workshop


def test_the_page_shows_every_model_and_leads_to_its_files(batch: Workshop) -> None:
    Path("pages").mkdir()
    outcome = command("overview", "results/batch.json", "--report=pages/all.html")
    assert (outcome.status, outcome.out) == (0, "pages/all.html: 3 models\n")
    text = Path("pages/all.html").read_text(encoding="utf-8")
    assert '<b class="">1</b>converted' in text
    assert '<b class="bad">2</b>failed' in text
    assert "strict &lt;one&gt;" in text
    assert "nothing.onnx" in text
    links = re.findall(r'<a href="([^"]*)">', text)
    assert links == ["../out/good.html", "../out/good%20one.onnx"]
    (job, *_) = json.loads(Path("results/batch.json").read_text(encoding="utf-8"))["jobs"]
    (artefact,) = job["report"]["artefacts"]
    assert f"{artefact['accuracy'][0]['cosine']:.6f}" in text
    assert job["folder"] == ".."


def test_the_page_can_be_made_again_elsewhere_and_is_the_same(batch: Workshop) -> None:
    command("overview", "results/batch.json", "--report=first.html")
    command("overview", "results/batch.json", "--report=second.html")
    first = Path("first.html").read_text(encoding="utf-8")
    assert first == Path("second.html").read_text(encoding="utf-8")
    assert 'href="out/good.html"' in first


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("nothing.json", None, "there is no such file"), ("other.json", "{}", "this is not a batch result")],
)
def test_what_is_no_result_of_a_batch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_text(content, encoding="utf-8")
    outcome = command("overview", name)
    assert outcome.status == 2
    assert message in outcome.err
    assert not Path("batch.html").exists()
