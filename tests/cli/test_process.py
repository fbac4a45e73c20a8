"""What only a process of its own can show: imports, entry points, signals, pipes, encodings."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import onnx
import pytest

from converter_lite.cli.exit_status import run_conversion
from converter_lite.pipeline import summary as summaries
from converter_lite.system.files import Transaction
from converter_lite.system.memory import MemoryWatch
from tests.cli.workshop import (
    FULL,
    ROOT,
    SUCCESS,
    WEIGHT,
    Workshop,
    changed,
    child,
    command,
    environment,
    ini,
    model_proto,
    write_bins,
)
from tests.support import normal

HEAVY = (
    "numpy",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "PIL",
    "tqdm",
    "google.protobuf",
    "flatbuffers",
    "dask",
    "distributed",
)


COMMAND = "import contextlib, converter_lite.cli.converter_lite as c\nwith contextlib.suppress(SystemExit): c.cli.main"


@pytest.mark.parametrize(
    "statement",
    [
        "import converter_lite",
        "import converter_lite.cli.converter_lite",
        "import converter_lite.config",
        f"{COMMAND}(['--help'])",
        f"{COMMAND}(['template', 'full_quant'])",
        f"{COMMAND}(['--fmk=OM'])",
    ],
)
def test_what_needs_no_model_imports_no_heavy_module(statement: str) -> None:
    code = f"import sys\n{statement}\nprint([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_module_runs_as_a_command(workshop: Workshop) -> None:
    done = child("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=ONNX")
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, SUCCESS, "")
    onnx.checker.check_model("out.onnx")


def test_no_argument_prints_the_usage_and_ends_with_0() -> None:
    done = child()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: converter_lite ")


def test_a_failure_ends_the_process_with_its_status(workshop: Workshop) -> None:
    assert child("--fmk=ONNX").returncode == 2
    done = child("--fmk=ONNX", "--modelFile=absent.onnx", "--outputFile=out", "--saveType=ONNX")
    assert (done.returncode, done.stdout) == (1, "CONVERT RESULT FAILED:1\n")
    assert done.stderr.startswith("ERROR absent.onnx: ")


def test_libraries_add_nothing_to_the_error_output(workshop: Workshop) -> None:
    proto = model_proto()
    proto.graph.node[1].input[0] = "nowhere"
    onnx.save(proto, "model.onnx")
    done = child("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=ONNX")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("ERROR ")
    assert len(done.stderr.splitlines()) <= 2


def test_a_defect_ends_with_3_and_without_a_traceback(workshop: Workshop) -> None:
    code = textwrap.dedent(
        """
        import converter_lite.pipeline.convert
        def broken(*_):
            raise AssertionError("of the test")
        converter_lite.pipeline.convert.run = broken
        from converter_lite.cli.converter_lite import main
        main()
        """
    )
    flags = ["--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=ONNX", "--json=result.json"]
    line = [sys.executable, "-c", code, *flags]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout) == (3, "CONVERT RESULT FAILED:3\n")
    assert done.stderr.startswith("ERROR this is a defect of converter_lite: AssertionError: of the test")
    assert "Traceback" not in done.stderr
    assert '"status": 3' in Path("result.json").read_text(encoding="utf-8")


def test_a_package_that_is_missing_is_named_and_is_no_defect(workshop: Workshop) -> None:
    code = "import sys; sys.modules['onnxruntime'] = None; from converter_lite.cli.converter_lite import main; main()"
    flags = ["--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=ONNX"]
    line = [sys.executable, "-c", code, *flags]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "CONVERT RESULT FAILED:1"), done
    assert done.stderr.startswith("ERROR the package onnxruntime cannot be imported")
    assert "Traceback" not in done.stderr


STAGES = ["equalization", "calibration", "bias correction", "write", "prove"]


@pytest.mark.skipif(os.name != "posix", reason="signals are a matter of POSIX systems")
@pytest.mark.parametrize(
    ("stage", "number"),
    [*((stage, signal.SIGINT) for stage in STAGES), ("calibration", signal.SIGTERM), ("prove", signal.SIGHUP)],
)
def test_ctrl_c_and_other_ends_leave_nothing_behind(workshop: Workshop, stage: str, number: signal.Signals) -> None:
    (workshop.folder / "out.onnx").write_bytes(b"old")
    (workshop.folder / "quant.cfg").write_text(ini(FULL), encoding="utf-8")
    before = workshop.content()
    code = textwrap.dedent(
        f"""
        import contextlib, signal, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and the command leaves that as it is
        from converter_lite.log import Log
        original = Log.stage
        @contextlib.contextmanager
        def slow(self, name):
            with original(self, name):
                if name == {stage!r}:
                    print("ready", flush=True)
                    time.sleep(60)
                yield
        Log.stage = slow
        from converter_lite.cli.converter_lite import main
        main()
        """
    )
    flags = [
        "--fmk=ONNX",
        "--modelFile=model.onnx",
        "--outputFile=out",
        "--saveType=ONNX",
        "--configFile=quant.cfg",
        "--savePlan=new/p.json",
    ]
    with subprocess.Popen(
        [sys.executable, "-c", code, *flags, "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "CONVERT RESULT FAILED:130\n")
    assert err == "interrupted; no result was written\n"
    assert workshop.content() == before


@pytest.mark.parametrize("moment", ["between two files", "before the summary", "while files are cleaned up"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_behind_the_first_file_in_its_place_comes_too_late(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, moment: str, number: signal.Signals
) -> None:
    owner, name = {
        "between two files": (Transaction, "commit"),
        "before the summary": (summaries, "summary"),
        "while files are cleaned up": (MemoryWatch, "__exit__"),
    }[moment]
    original = getattr(owner, name)

    def interrupted(*arguments: object) -> object:
        done = original(*arguments)
        signal.raise_signal(number)
        return done

    monkeypatch.setattr(owner, name, interrupted)
    kept = [signal.signal(kind, signal.default_int_handler) for kind in (signal.SIGINT, signal.SIGTERM)]
    try:
        workshop.succeed("--savePlan=plan.json", "--json=result.json", config=WEIGHT)
    finally:
        handlers = [signal.signal(kind, old) for kind, old in zip((signal.SIGINT, signal.SIGTERM), kept, strict=True)]
    assert handlers == [signal.default_int_handler] * 2
    assert json.loads(Path("result.json").read_text(encoding="utf-8"))["status"] == 0
    assert Path("plan.json").exists()


def test_ctrl_c_while_libraries_are_imported_is_reported_without_them(workshop: Workshop) -> None:
    code = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from converter_lite.cli.exit_status import run_conversion
        def work():
            for name in ("numpy", "onnx", "onnx_ir", "onnxruntime", "google.protobuf"):
                sys.modules[name] = None  # what is half imported fails when it is imported again
            raise KeyboardInterrupt
        sys.exit(run_conversion(work, json_file=Path("result.json"), details=False))
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout) == (130, "CONVERT RESULT FAILED:130\n"), done.stderr
    assert '"status": 130' in Path("result.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["cause", "context", "text"])
def test_ctrl_c_that_a_library_made_an_error_of_is_ctrl_c(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            if form == "context":
                raise SystemError("returned a result with an exception set")  # noqa: B904
            text = "KeyboardInterrupt: <EMPTY MESSAGE>" if form == "text" else "import failed"
            raise ImportError(text) from (error if form == "cause" else None)

    assert run_conversion(work, json_file=None, details=False) == 130
    assert capsys.readouterr() == ("CONVERT RESULT FAILED:130\n", "interrupted; no result was written\n")


def test_ctrl_c_before_the_work_begins_has_the_closing_line_too(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("converter_lite.cli.converter_lite.run_conversion", interrupted)
    outcome = workshop.convert("--json=r.json")
    assert (outcome.status, outcome.last_line) == (130, "CONVERT RESULT FAILED:130")
    assert outcome.err.strip() == "interrupted; no result was written"
    assert '"status": 130' in Path("r.json").read_text(encoding="utf-8")


@pytest.mark.skipif(os.name != "posix", reason="signals are a matter of POSIX systems")
def test_ctrl_c_in_the_middle_of_calibration_ends_the_worker_threads(workshop: Workshop) -> None:
    graph = "g (float[N,3,96,96] x) => (float[N,64,96,96] y) { h = Conv<pads=[1,1,1,1]>(x, w) y = Conv<pads=[1,1,1,1]>(h, v) }"
    onnx.save(model_proto(graph, w=normal(64, 3, 3, 3), v=normal(64, 64, 3, 3)), "model.onnx")
    for path in (workshop.folder / "bins").iterdir():
        path.unlink()
    write_bins(workshop.folder / "bins", 600, (1, 96, 96, 3))
    config = changed(FULL, data_preprocess_param={"calibrate_size": "600"}, full_quant_param={"equalization": "false"})
    (workshop.folder / "quant.cfg").write_text(ini(config), encoding="utf-8")
    before = workshop.content()
    code = """if True:
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from converter_lite.cli.converter_lite import main
        main()
        """
    line = [sys.executable, "-c", code, "--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=ONNX"]
    with subprocess.Popen(
        [*line, "--configFile=quant.cfg"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert any("BIN files" in line for line in iter(process.stdout.readline, "")), "it ended before"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.splitlines()[-1]) == (130, "CONVERT RESULT FAILED:130")
    assert err == "interrupted; no result was written\n"
    assert workshop.content() == before


def test_a_closed_pipe_is_no_traceback(workshop: Workshop) -> None:
    line = [
        sys.executable,
        "-m",
        "converter_lite",
        "--fmk=ONNX",
        "--modelFile=model.onnx",
        "--outputFile=out",
        "--saveType=ONNX",
    ]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
    assert "Traceback" not in err
    assert "Exception" not in err
    assert process.returncode != 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_the_printed_lines_is_reported_and_leaves_nothing_behind(workshop: Workshop) -> None:
    before = workshop.content()
    line = [sys.executable, "-m", "converter_lite", "--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False)
    assert done.returncode == 1
    assert done.stderr == "ERROR standard output: cannot print: No space left on device\n"
    assert workshop.content() == before


def test_names_that_the_terminal_cannot_show_are_escaped(workshop: Workshop) -> None:
    proto = model_proto()
    proto.graph.output[0].name = "выход"
    proto.graph.node[-1].output[0] = "выход"
    onnx.save(proto, "модель.onnx")
    done = child(
        "--fmk=ONNX",
        "--modelFile=модель.onnx",
        "--outputFile=выход",
        "--saveType=ONNX",
        PYTHONIOENCODING="ascii",
        PYTHONUTF8="0",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u0432" in done.stdout
    assert Path("выход.onnx").is_file()


def test_an_output_path_that_is_no_text_is_refused(workshop: Workshop) -> None:
    line = [sys.executable, "-m", "converter_lite", "--fmk=ONNX", "--modelFile=model.onnx", "--saveType=ONNX"]
    done = subprocess.run([*line, b"--outputFile=a\xffb"], capture_output=True, env=environment(), check=False)
    assert done.returncode == 2
    assert b"the path is not UTF-8 text" in done.stderr


def test_files_in_a_folder_whose_name_is_no_text(workshop: Workshop) -> None:
    folder = Path(os.fsdecode(b"a\xffb"))
    folder.mkdir()
    shutil.copy("model.onnx", folder)
    Path("quant.cfg").write_text(ini(FULL), encoding="utf-8")
    model = f"--modelFile={folder}/model.onnx"
    outcome = command("doctor", f"{folder}/model.onnx", "quant.cfg", "--saveType=ONNX")
    assert (outcome.status, outcome.err) == (0, "")
    given = ["--fmk=ONNX", model, "--outputFile=out", "--saveType=ONNX", "--configFile=quant.cfg"]
    assert command(*given, f"--report={folder}/page.html", f"--savePlan={folder}/plan.json").status == 0
    assert "a\\udcffb" in (folder / "page.html").read_text(encoding="utf-8")
    outcome = command("compare", "model.onnx", "out.onnx", "--extract-worst=1", f"--outputDir={folder}")
    assert (outcome.status, "the path is not UTF-8 text" in outcome.err) == (2, True)


@pytest.mark.parametrize("blocks", [1, 4, 16])
def test_a_full_disk_is_reported_and_leaves_nothing_behind(workshop: Workshop, blocks: int) -> None:
    (workshop.folder / "out.onnx").write_bytes(b"old")
    graph = "g (float[N,64] x) => (float[N,256] y) { y = MatMul(x, w) }"
    onnx.save(model_proto(graph, w=normal(64, 256)), "model.onnx")
    before = workshop.content()
    code = textwrap.dedent(
        f"""
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({blocks} * 1024, {blocks} * 1024))
        from converter_lite.cli.converter_lite import main
        main()
        """
    )
    line = [
        sys.executable,
        "-c",
        code,
        "--fmk=ONNX",
        "--modelFile=model.onnx",
        "--outputFile=out",
        "--saveType=ONNX",
        "--quiet",
    ]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout) == (1, "CONVERT RESULT FAILED:1\n")
    assert "cannot write" in done.stderr
    assert workshop.content() == before


def test_the_checkout_is_where_the_package_comes_from() -> None:
    code = "import converter_lite; print(converter_lite.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert Path(done.stdout.strip()).is_relative_to(ROOT)


def test_nothing_that_loads_slowly_stands_before_the_place_where_interruptions_are_quiet() -> None:
    program = "import sys; sys.path.insert(0, sys.argv[1]); import converter_lite.__main__; print(*sys.modules)"
    line = [sys.executable, "-I", "-S", "-c", program, str(ROOT)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "converter_lite.__main__" in done.stdout.split()
    assert {"enum", "re", "signal", "typing"}.isdisjoint(done.stdout.split())


@pytest.mark.parametrize("ignored", [False, True])
def test_an_interruption_while_modules_load_ends_the_process_without_a_traceback(ignored: bool) -> None:
    program = f"""
        import os, signal, sys

        class Interrupting:
            def find_spec(self, name, *_):
                if name == "click":
                    os.kill(os.getpid(), signal.SIGINT)

        signal.signal(signal.SIGINT, {"signal.SIG_IGN" if ignored else "signal.default_int_handler"})
        sys.meta_path.insert(0, Interrupting())
        sys.argv[1:] = ["--version"]
        from converter_lite.__main__ import converter_lite
        converter_lite()
    """
    line = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0 if ignored else -signal.SIGINT, "")
