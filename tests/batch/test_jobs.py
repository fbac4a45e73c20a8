from pathlib import Path

import pytest

from converter_lite.batch.jobs import OF_ONE_RUN, Job, jobs_of_models, read_jobs
from converter_lite.errors import ConfigError, UsageError

KNOWN = ("fmk", "modelFile", "outputFile", "configFile", "saveType", "dryRun", "threads", *OF_ONE_RUN)


def jobs_in(folder: Path, text: str, **defaults: str) -> list[Job]:
    (folder / "jobs.toml").write_text(text, encoding="utf-8")
    return read_jobs(folder / "jobs.toml", KNOWN, defaults)


def problems_in(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as failure:
        jobs_in(folder, text)
    return failure.value.problems or (str(failure.value),)


def test_a_job_takes_defaults_of_the_file_and_then_of_the_command_line(tmp_path: Path) -> None:
    text = """
    outputDir = "out"
    [defaults]
    saveType = "ONNX"
    configFile = "a.cfg"
    [[job]]
    modelFile = "one.onnx"
    configFile = "b.cfg"
    threads = 2
    dryRun = true
    """
    (job,) = jobs_in(tmp_path, text, saveType="MINDIR_LITE", fmk="PADDLE")
    assert (job.name, job.folder) == ("one", tmp_path)
    assert dict(job.flags) == {
        "fmk": "PADDLE",
        "modelFile": "one.onnx",
        "outputFile": str(Path("out/one")),
        "configFile": "b.cfg",
        "saveType": "ONNX",
        "threads": "2",
        "dryRun": "true",
    }
    assert job.path("configFile") == tmp_path / "b.cfg"
    assert job.path("plan") is None


def test_a_pattern_makes_one_job_for_each_file_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.onnx", "a.onnx", "sub/c.onnx", "a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    jobs = jobs_in(tmp_path, '[[job]]\nmodels = "**/*.onnx"')
    assert [(job.name, job.flag("modelFile")) for job in jobs] == [
        ("a", "a.onnx"),
        ("b", "b.onnx"),
        ("c", str(Path("sub/c.onnx"))),
    ]
    absolute = jobs_of_models([str(tmp_path / "?.onnx")], {"saveType": "ONNX"}, "out")
    assert [job.flag("modelFile") for job in absolute] == [str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")]
    assert absolute[0].flag("outputFile") == str(Path("out/a"))


MIXED = (
    *("net.onnx", "net.tflite", "other/net.mindir", "caffe.prototxt", "caffe.caffemodel", "notes.txt", "labels.json"),
    *("text/__model__", "text/params", "pir/inference.json", "pir/inference.pdiparams", "saved/saved_model.pb"),
    *("alone.json", "alone.pdiparams", "saved/variables/data.h5"),
)


def test_a_folder_stands_for_the_models_in_it(tmp_path: Path) -> None:
    for name in MIXED:
        (tmp_path / "zoo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "zoo" / name).touch()
    jobs = jobs_of_models([str(tmp_path / "zoo")], {}, "out")
    found = {job.name: (job.flag("modelFile").removeprefix(f"{tmp_path}/zoo/"), job.flag("fmk")) for job in jobs}
    assert found == {
        "alone": ("alone.json", "PADDLE"),
        "caffe": ("caffe.prototxt", "CAFFE"),
        "net_mindir": ("other/net.mindir", "MINDIR"),
        "net_onnx": ("net.onnx", "ONNX"),
        "net_tflite": ("net.tflite", "TFLITE"),
        "pir": ("pir", "PADDLE"),
        "saved": ("saved", "TF"),
        "text": ("text", "PADDLE"),
    }
    relative = jobs_in(tmp_path, '[[job]]\nmodels = "zoo/other"')
    assert [job.flag("modelFile") for job in relative] == [str(Path("zoo/other/net.mindir"))]


def test_relative_paths_start_at_the_folder_that_the_file_names(tmp_path: Path) -> None:
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "a.onnx").touch()
    (job,) = jobs_in(tmp_path, 'folder = "zoo"\n[[job]]\nmodels = "*.onnx"')
    assert job.path("modelFile") == tmp_path / "zoo" / "a.onnx"


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "net[1].onnx").touch()
    (job,) = jobs_of_models([str(tmp_path / "net[1].onnx")], {}, "")
    assert job.name == "net[1]"


def test_all_mistakes_are_reported_at_once_with_the_nearest_valid_name(tmp_path: Path) -> None:
    text = """
    outDir = "x"
    [defaults]
    saveTyp = "ONNX"
    [[job]]
    model = "one.onnx"
    [[job]]
    modelFile = "a.onnx"
    models = "*.onnx"
    [[job]]
    models = "none/*.onnx"
    [[job]]
    modelFile = ["a.onnx"]
    [[job]]
    models = "*"
    name = "n"
    """
    found = "\n".join(problems_in(tmp_path, text))
    for part in (
        "unknown key 'outDir'; did you mean outputDir?",
        "[defaults]: unknown key 'saveTyp'; did you mean saveType?",
        "job 1: unknown key 'model'; did you mean",
        "job 2: give either modelFile or models",
        "job 3: no file fits",
        "job 4: modelFile is not a text, number or boolean",
        "job 5: name and outputFile cannot stand beside models",
    ):
        assert part in found


def test_two_jobs_never_write_the_same_file(tmp_path: Path) -> None:
    text = '[[job]]\nmodelFile = "a/net.onnx"\n[[job]]\nmodelFile = "b/net.onnx"'
    assert [problem.rsplit(": ", 1)[1] for problem in problems_in(tmp_path, text)] == [
        "several jobs have the name 'net'",
        "several jobs have the outputFile 'net'",
    ]


@pytest.mark.parametrize(
    ("outputs", "formats", "is_one"),
    [
        (("out/net", "./out/net"), "ONNX", True),
        (("out/net", "out/../out/net.onnx"), "MINDIR_LITE, ONNX", True),
        (("out/net", "{folder}/out/net"), "ONNX", True),
        (("out/net.ms", "out/net.onnx"), "", True),
        (("out/net", "out/net.ms"), "ONNX", False),  # net.onnx and net.ms.onnx
        (("out/net", "net"), "ONNX", False),
    ],
)
def test_results_are_told_apart_by_their_files(
    tmp_path: Path, outputs: tuple[str, str], formats: str, is_one: bool
) -> None:
    jobs = (
        f'[[job]]\nname = "{number}"\nmodelFile = "net.onnx"\noutputFile = "{output.format(folder=tmp_path)}"\n'
        for number, output in enumerate(outputs)
    )
    text = "".join((f'[defaults]\nsaveType = "{formats}"\n' if formats else "", *jobs))
    if is_one:
        (problem,) = problems_in(tmp_path, text)
        assert "several jobs have the outputFile" in problem
    else:
        assert len(jobs_in(tmp_path, text)) == 2


@pytest.mark.parametrize("flag", OF_ONE_RUN)
def test_a_file_of_one_run_belongs_to_one_job(tmp_path: Path, flag: str) -> None:
    job = '[[job]]\nname = "{0}"\nmodelFile = "{0}.onnx"\n{1} = "{2}"\n'
    several = "".join(job.format(name, flag, path) for name, path in (("a", "out/x"), ("b", "./out/x"), ("c", "x")))
    (problem,) = problems_in(tmp_path, several)
    assert problem.endswith(f"several jobs have the {flag} './out/x'")
    models = "".join(f'[[job]]\nmodelFile = "{name}.onnx"\n' for name in "ab")
    (problem,) = problems_in(tmp_path, f'[defaults]\n{flag} = "x"\n{models}')
    assert problem.endswith(f"several jobs have the {flag} 'x'")


@pytest.mark.parametrize(
    "text", ["[[job]\n", "job = 3", "defaults = 3", "outputDir = 3", "folder = 3", "", "[[job]]\nmodelFile=''"]
)
def test_what_is_no_list_of_jobs_is_refused(tmp_path: Path, text: str) -> None:
    assert "jobs.toml" in problems_in(tmp_path, text)[0]


def test_a_missing_file_and_a_pattern_without_files_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_jobs(tmp_path / "jobs.toml", KNOWN, {})
    with pytest.raises(UsageError, match="no file fits"):
        jobs_of_models([str(tmp_path / "*.onnx")], {}, "")
