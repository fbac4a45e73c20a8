import json
import signal
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from converter_lite.batch.junit import junit_xml
from converter_lite.batch.results import JobResult
from tests.cli.workshop import FULL, Outcome, Workshop, changed, command, environment, ini

JOBS = """
[defaults]
saveType = "ONNX"
configFile = "quant.cfg"
[[job]]
name = "first"
modelFile = "model.onnx"
[[job]]
name = "second"
modelFile = "model.onnx"
minCosine = 1.0
"""


@pytest.fixture
def shop(workshop: Workshop) -> Workshop:
    (workshop.folder / "quant.cfg").write_text(ini(FULL))
    return workshop


def batch(shop: Workshop, *arguments: str, jobs: str = JOBS) -> Outcome:
    (shop.folder / "jobs.toml").write_text(jobs)
    return command("batch", "jobs.toml", *arguments)


def lines(outcome: Outcome) -> list[str]:
    return sorted(line.split("] ")[1].split(",")[0] for line in outcome.out.splitlines()[:-1])


def test_a_failure_stops_no_other_job_and_decides_the_exit_status(shop: Workshop) -> None:
    outcome = batch(shop, "--junit=junit.xml", "-j2")
    assert outcome.status == 1
    failed, converted = lines(outcome)
    assert failed.startswith("FAILED  second: second.onnx: cosine ")
    assert converted.startswith("ok      first: .onnx ")
    assert outcome.out.splitlines()[-1] == "1 converted, 0 as before, 1 failed: batch_result.json"
    assert (shop.folder / "first.onnx").exists()
    assert not (shop.folder / "second.onnx").exists()

    kept = json.loads((shop.folder / "batch_result.json").read_text())
    assert [(job["name"], job["status"]) for job in kept["jobs"]] == [("first", 0), ("second", 1)]
    assert kept["jobs"][0]["report"]["artefacts"][0]["accuracy"][0]["cosine"] > 0.99
    suite = ElementTree.parse(shop.folder / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert [[child.tag for child in case] for case in suite] == [["system-out"], ["failure", "system-out"]]


def test_resume_skips_what_is_done_until_an_input_a_setting_or_the_result_changes(shop: Workshop) -> None:
    assert batch(shop).status == 1
    easier = JOBS.replace("1.0", "0.5")
    assert lines(batch(shop, "--resume", jobs=easier))[0].startswith("ok      first")
    again = batch(shop, "--resume", jobs=easier)
    assert (again.status, again.out.count("as before")) == (0, 3)

    without_correction = ini(changed(FULL, full_quant_param={"bias_correction": "false"})).encode()
    for name, content, converted in (
        ("bins/000.bin", b"\0" * 768, 2),
        ("quant.cfg", without_correction, 2),
        ("first.onnx", b"something else", 1),
    ):
        (shop.folder / name).write_bytes(content)
        assert f"{converted} converted, {2 - converted} as before" in batch(shop, "--resume", jobs=easier).out, name


def test_a_result_of_several_files_is_done_as_long_as_all_of_them_are_there(shop: Workshop) -> None:
    jobs = '[[job]]\nmodelFile = "model.onnx"\noutputFile = "made"\nsaveType = "PADDLE"\n'
    for change in (lambda: None, lambda: None, (shop.folder / "made.pdiparams").unlink):
        change()
        outcome = batch(shop, "--resume", jobs=jobs)
    assert outcome.out.splitlines()[-1].startswith("1 converted, 0 as before")
    assert "0 converted, 1 as before" in batch(shop, "--resume", jobs=jobs).out
    kept = json.loads((shop.folder / "batch_result.json").read_text())
    assert kept["jobs"][0]["report"]["artefacts"][0]["files"] == ["made.pdmodel", "made.pdiparams"]


def test_a_run_without_resume_converts_again(shop: Workshop) -> None:
    easier = JOBS.replace("1.0", "0.5")
    assert batch(shop, jobs=easier).status == 0
    assert "2 converted, 0 as before" in batch(shop, jobs=easier).out


def test_models_named_on_the_command_line_share_settings(shop: Workshop) -> None:
    arguments = ["--configFile=quant.cfg", "--outputDir=out", "--set", "saveType=ONNX", "--set", "minCosine=0.5"]
    outcome = command("batch", "*.onnx", *arguments)
    assert outcome.status == 0
    assert (shop.folder / "out" / "model.onnx").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((), "name a job file"),
        (("jobs.toml", "model.onnx"), "one job file at a time"),
        (("jobs.toml", "--outputDir=x"), "the job file says"),
        (("",), "a name is empty"),
        (("jobs.toml", "-jx"), "is not a number of jobs"),
        (("jobs.toml", "-j", "1", "-j2"), "-j: the flag is given twice"),
        (("jobs.toml", "-j", "9" * 5000), "is not a number of jobs from 0 to 256"),
        (("model.onnx", "--set", "saveType=ONNX", "--set", "saveType=PADDLE"), "the flag is given twice"),
        (("model.onnx", "--set", "savType=ONNX"), "did you mean saveType?"),
        (("model.onnx", "--set", "json=x"), "unknown flag 'json'"),
        (("jobs.toml", "--resume", "--json=other.json"), "not a batch result"),
        (("jobs.toml", "--json=quant.cfg"), "would overwrite an input"),
        (("jobs.toml", "--junit=jobs.toml"), "would overwrite an input"),
        (("jobs.toml", "--json=bins/000.bin"), "would overwrite an input"),
        (("jobs.toml", "--json=r.json", "--junit=r.json"), "would overwrite another output"),
        (("model.onnx", "--outputDir=results", "--json=results"), "a job puts its files into a folder of this name"),
        (("jobs.yaml",), "job files are TOML"),
        (("model.onnx", "--set", "cache="), "the value is empty"),
        (("model.onnx", "--set", "dryRun=yes"), "the value is true or false, not 'yes'"),
        (("jobs.toml", "--frobnicate"), "No such option"),
    ],
)
def test_wrong_usage_has_status_2_and_converts_nothing(shop: Workshop, arguments: tuple[str, ...], part: str) -> None:
    (shop.folder / "jobs.toml").write_text(JOBS)
    (shop.folder / "other.json").write_text("{}")
    before = shop.content()
    outcome = command("batch", *arguments)
    assert outcome.status == 2
    assert part in outcome.err
    assert shop.content() == before


def test_an_interrupted_batch_ends_its_jobs_and_can_be_resumed(shop: Workshop) -> None:
    (shop.folder / "jobs.toml").write_text(JOBS.replace("1.0", "0.5"))
    code = """if True:
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
        from converter_lite.cli.converter_lite import main
        main()
        """
    line = [sys.executable, "-c", code, "batch", "jobs.toml"]
    process = subprocess.Popen(
        line, env=environment(), cwd=shop.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "first: .onnx" in first
    assert "--resume continues" in err
    assert not list(shop.folder.glob(".*")), "nothing half-written is left"
    outcome = command("batch", "jobs.toml", "--resume")
    assert (outcome.status, "first" in outcome.out, "1 as before" in outcome.out) == (0, True, True)


def test_a_process_that_is_killed_is_a_failed_job(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = shop.folder / "dying"
    dying.write_text("#!/bin/sh\nkill -9 $$\n")
    dying.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(dying))
    outcome = batch(shop, "--junit=junit.xml")
    assert outcome.status == 1
    assert "ended by SIGKILL; the system kills processes when memory runs out" in outcome.out
    suite = ElementTree.parse(shop.folder / "junit.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "2")


def test_junit_holds_text_that_xml_cannot() -> None:
    result = JobResult("a\x00<b>&", 3, 1.0, "", {}, error="ends in \x1b[0m\nsecond line", log="\ud800")
    case = ElementTree.fromstring(junit_xml([result], suite="s").partition("?>")[2])[0][0]
    assert case.get("name") == "a\ufffd<b>&"
    assert case[0].tag == "error"
    assert case[0].get("message") == "ends in \ufffd[0m"
    assert case[1].text == "\ufffd"
