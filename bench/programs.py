"""How each program is called for a case, and what must be there for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.cases import OPT, OURS, TASKS, Case


class NotInstalledError(Exception):
    """A program that is not on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Places:
    """Folders of a run.

    Attributes:
        root: The checkout.
        shared: Models, data and the evaluation script.
        work: Files that the run writes.
        runtimes: Virtual environments of the released device tools.
    """

    root: Path
    shared: Path
    work: Path
    runtimes: Path

    def without_folders(self, text: str) -> str:
        """The text with file names in place of paths into the run's folders, which mean nothing to a reader."""
        for folder in (self.work, self.shared, self.root):
            text = text.replace(f"{folder}/", "")
        return text

    def model(self, task: str) -> Path:
        """The float model of a task."""
        return self.shared / "data/models" / TASKS[task].model

    def result(self, case: Case) -> Path:
        """The ONNX file that a case is evaluated by."""
        return self.work / f"{case.name}.onnx"

    def written(self, case: Case) -> Path:
        """The file that a case writes: its own kind first, as a rebuilt ONNX file may stand beside it."""
        kinds = (self.work / f"{case.name}{suffix}" for suffix in (".ms", ".nb"))
        return next((path for path in kinds if path.is_file()), self.result(case))

    def data(self, case: Case) -> Path:
        """Calibration samples; repeated under other names where a case wants more than there are."""
        source = self.shared / "data" / TASKS[case.task].data
        if len(TASKS[case.task].inputs) > 1:
            return source
        files = sorted(source.iterdir())
        if case.samples <= len(files):
            return source
        repeated = self.work / f"{source.name}_{case.samples}"
        if not repeated.is_dir():
            repeated.mkdir()
            for index in range(case.samples):
                original = files[index % len(files)]
                shutil.copyfile(original, repeated / f"{index:05d}_{original.name}")
        return repeated


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command and the variables that it needs."""

    command: list[str]
    env: Mapping[str, str] = field(default_factory=dict)


def invocation(case: Case, places: Places) -> Invocation:
    """The command of a case; files that it reads are written.

    Raises:
        NotInstalledError: The program is not on this machine.
    """
    return PROGRAMS[case.program](case, places)


def config_text(case: Case, data: Path | None) -> str:
    """The INI file of a case, with the data section where there are data."""
    sections = dict(case.ini)
    if data is not None:
        task = TASKS[case.task]
        several = len(task.inputs) > 1
        paths = ",".join(f"{name}:{data / name if several else data}" for name in task.inputs)
        sections["data_preprocess_param"] = {
            "calibrate_path": paths,
            "calibrate_size": str(case.samples),
            **task.preprocessing,
        }
    lines = (
        f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items()) for name, keys in sections.items()
    )
    return "\n".join(lines)


def nncf_python(places: Places) -> Path:
    """Interpreter of NNCF's environment, which is made at the first call.

    Raises:
        NotInstalledError: The packages cannot be installed.
    """
    venv = places.root / "bench/.venvs/nncf"
    python, mark = venv / "bin/python", venv / ".installed"
    if mark.is_file():
        return python
    requirements = places.root / "bench/requirements/nncf.txt"
    steps = (
        [sys.executable, "-m", "venv", str(venv)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(requirements)],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            raise NotInstalledError(f"its environment cannot be made: {said[-1]}")
    mark.touch()
    return python


def openvino_python(places: Places) -> Path:
    """Interpreter of OpenVINO's environment.

    Raises:
        NotInstalledError: It is not there.
    """
    return _runtime("openvino", places)


def _runtime(name: str, places: Places) -> Path:
    python = places.runtimes / name / "bin/python"
    if not python.is_file():
        raise NotInstalledError(f"no {name}/bin/python in the folder {places.runtimes.name}")
    return python


def _ours(case: Case, places: Places) -> Invocation:
    program = str(Path(sys.executable).with_name("converter_lite"))
    if not case.task:
        return Invocation([program, *case.options])
    config = _written_config(case, places)
    return Invocation(
        [
            program,
            "--fmk=ONNX",
            f"--modelFile={places.model(case.task)}",
            f"--outputFile={places.result(case).with_suffix('')}",
            f"--configFile={config}",
            f"--saveType={case.save_type}",
            *_shape_option(case),
            "--minCosine=-1",  # a figure below the gate is still wanted
            *case.options,
        ]
    )


def _shape_option(case: Case) -> tuple[str, ...]:
    shapes = TASKS[case.task].shapes if case.save_type != "ONNX" else ""
    return (f"--inputShape={shapes}",) if shapes else ()


def rebuilding(case: Case, places: Places) -> Invocation:
    """The command that reads a ``.ms`` or ``.nb`` file back and writes what it says as ONNX, for the evaluation."""
    files = (places.model(case.task), places.written(case), places.result(case))
    options = ("--shapes", TASKS[case.task].shapes)
    return Invocation(
        [sys.executable, "-m", "bench.rebuild", *map(str, files), *options], {"PYTHONPATH": str(places.root)}
    )


def _written_config(case: Case, places: Places) -> Path:
    config = places.work / f"{case.name}.cfg"
    config.write_text(config_text(case, places.data(case) if case.samples else None))
    return config


def _peer(module: str, interpreter: Callable[[Places], Path]) -> Callable[[Case, Places], Invocation]:
    def build(case: Case, places: Places) -> Invocation:
        arguments = {
            "--task": case.task,
            "--model": places.model(case.task),
            "--output": places.result(case),
            "--data": places.data(case),
            "--samples": case.samples,
        }
        pairs = [str(part) for pair in arguments.items() for part in pair]
        command = [str(interpreter(places)), "-m", f"bench.peers.{module}", *pairs, *case.options]
        return Invocation(command, {"PYTHONPATH": str(places.root)})

    return build


def _mindspore_lite(case: Case, places: Places) -> Invocation:
    python = _released_python(places)
    script = places.shared / "conformance/convert_ms.py"
    config = _written_config(case, places)
    shapes = TASKS[case.task].shapes
    arguments = [script, places.model(case.task), places.work / case.name, config, *([shapes] if shapes else [])]
    return Invocation([str(python), *map(str, arguments)])


def _mindspore_lite_alone(case: Case, places: Places) -> Invocation:
    """With the converter's own library in front of the others in its process, without which full quantization fails."""
    folders = sorted((_released_python(places).parent.parent / "lib").glob("python*/site-packages/mindspore_lite/lib"))
    library = folders[0] / "libmindspore_converter.so" if folders else Path("absent")
    if not library.is_file():
        raise NotInstalledError(f"no {library.name} in the released package")
    env = {"LD_PRELOAD": str(library), "LD_LIBRARY_PATH": str(library.parent)}
    return Invocation(_mindspore_lite(case, places).command, env)


def _released_python(places: Places) -> Path:
    return _runtime("ms20", places)


def _opt(case: Case, places: Places) -> Invocation:
    """Our ``opt``: a Paddle model that the released one reads too, or an ONNX model with a configuration."""
    kind = case.program.partition(":")[2]
    shapes = TASKS[case.task].shapes
    if kind:
        source = [f"--model_dir={paddle_model(kind, places)}"]
    else:
        source = [f"--model_file={places.model(case.task)}", f"--configFile={_written_config(case, places)}"]
        source += [f"--inputShape={shapes}"] if shapes else []
    return Invocation([str(Path(sys.executable).with_name("opt")), *source, *_nb_options(case, places)])


def _paddle_lite(case: Case, places: Places) -> Invocation:
    program = places.runtimes / "pd212/bin/paddle_lite_opt"
    if not program.is_file():
        raise NotInstalledError(f"no pd212/bin/paddle_lite_opt in the folder {places.runtimes.name}")
    source = f"--model_dir={paddle_model(case.program.partition(':')[2], places)}"
    return Invocation([str(program), source, *_nb_options(case, places)])


def _nb_options(case: Case, places: Places) -> tuple[str, ...]:
    return (f"--optimize_out={places.work / case.name}", "--valid_targets=arm", *case.options)


def paddle_model(kind: str, places: Places) -> Path:
    """Folder of a Paddle MobileNet in a form that the released ``opt`` reads; made at the first call.

    Raises:
        NotInstalledError: It cannot be made.
    """
    made = places.work / f"paddle_{kind}"
    if not made.is_dir():
        source = places.shared / "data/models/paddle_mobilenet_v1_075" / kind
        command = [sys.executable, "-m", "bench.paddle_twin", str(source), str(made)]
        done = subprocess.run(command, cwd=places.root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalledError(f"its Paddle model cannot be prepared: {done.stderr.strip().splitlines()[-1]}")
    return made


def _own_python(places: Places) -> Path:
    return Path(sys.executable)


PROGRAMS: Mapping[str, Callable[[Case, Places], Invocation]] = {
    OURS: _ours,
    "ort_static": _peer("ort_static", _own_python),
    "ort_dynamic": _peer("ort_dynamic", _own_python),
    "nncf": _peer("nncf_static", nncf_python),
    "mindspore_lite": _mindspore_lite,
    "mindspore_lite_alone": _mindspore_lite_alone,
    **dict.fromkeys((OPT, f"{OPT}:fp32", f"{OPT}:ptq"), _opt),
    **dict.fromkeys(("paddle_lite:fp32", "paddle_lite:ptq"), _paddle_lite),
}
"""Program of a case -> its command."""
