"""Models of Paddle 3 on the command lines, float and quantized, into all three formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from converter_lite.api import quant_post_dynamic, quant_post_static
from converter_lite.batch.jobs import jobs_of_models
from converter_lite.errors import ConfigError
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.program import Program
from converter_lite.formats.registry import framework_of
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.cli.test_opt import run
from tests.cli.workshop import command
from tests.formats.paddle.inference_models import (
    fake_quantized_model,
    float_model,
    linear_quantized_model,
    save,
    trained_model,
)
from tests.formats.paddle.pir_models import PirProgram, pir_twin, tensor_type
from tests.support import normal

Maker = Callable[[], tuple[Program, dict[str, np.ndarray]]]
MAKERS = (float_model, fake_quantized_model, linear_quantized_model, trained_model)
ALL = "--saveType=MINDIR_LITE,ONNX,NAIVE_BUFFER"
FIXED = "--inputShape=image:1,3,8,8"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def model(maker: Maker = float_model, name: str = "model") -> Path:
    return pir_twin(*maker()).save(Path(name))


@pytest.mark.parametrize("maker", MAKERS)
def test_a_model_of_paddle_3_becomes_a_file_of_every_format_with_its_proof(maker: Maker) -> None:
    model(maker)
    outcome = command("--fmk=PADDLE", "--modelFile=model", "--outputFile=out", ALL, FIXED, "--json=r.json")
    assert outcome.status == 0, outcome
    artefacts = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
    assert [artefact["path"] for artefact in artefacts] == ["out.ms", "out.onnx", "out.nb"]
    assert min(artefact["accuracy"][0]["cosine"] for artefact in artefacts) > 0.99
    operators = parse(Path("out.nb").read_bytes()).program.main.operators
    assert any(op.get("enable_int8") for op in operators) == (maker is not float_model)


@pytest.mark.parametrize("maker", MAKERS)
def test_files_for_devices_are_those_of_the_older_file(maker: Maker) -> None:
    """Names of intermediate tensors differ, and are no part of ``.nb`` files' weights, kernels and attributes."""
    model(maker)
    save(Path("older"), *maker())
    for name in ("model", "older"):
        assert command("--fmk=PADDLE", f"--modelFile={name}", f"--outputFile=of_{name}", ALL, FIXED).status == 0
    newer, older = (parse(Path(f"of_{name}.nb").read_bytes()) for name in ("model", "older"))
    assert [op.type for op in newer.program.main.operators] == [op.type for op in older.program.main.operators]
    arrays = [[array.tobytes() for array in file.parameters.values()] for file in (newer, older)]
    assert sorted(arrays[0]) == sorted(arrays[1])
    feed = {"image": normal(1, 3, 8, 8)}
    one, other = (
        next(iter(DEFAULT_ENGINE.session(Path(f"of_{n}.onnx")).run(feed).values())) for n in ("model", "older")
    )
    assert np.array_equal(one, other)


def test_program_and_parameters_can_be_named_one_by_one() -> None:
    folder = model()
    (folder / "inference.pdiparams").rename("weights.bin")
    files = (f"--modelFile={folder}/inference.json", "--weightFile=weights.bin")
    assert command("--fmk=PADDLE", *files, "--outputFile=out", "--saveType=NAIVE_BUFFER").status == 0


def test_a_float_model_is_quantized_like_any_other() -> None:
    model()
    Path("w.cfg").write_text("[common_quant_param]\nquant_type=WEIGHT_QUANT\nmin_quant_weight_channel=0\n")
    arguments = ("--modelFile=model", "--outputFile=out", "--saveType=NAIVE_BUFFER", "--configFile=w.cfg")
    assert command("--fmk=PADDLE", *arguments).status == 0
    assert {array.dtype.name for array in parse(Path("out.nb").read_bytes()).parameters.values()} >= {"int8"}


def test_control_flow_is_refused_before_any_work_and_leaves_nothing_behind() -> None:
    made = PirProgram()
    (value,) = made.add("1.if", [made.input("x", (2,))], [tensor_type()])
    made.output(value)
    made.save(Path("model"))
    outcome = command("--fmk=PADDLE", "--modelFile=model", "--outputFile=out", ALL)
    assert outcome.status == 1
    assert "(pd_op.if -> fetch_name_0): control flow depends on numbers that are known only at run time" in outcome.err
    assert "paddle.where" in outcome.err
    assert not list(Path().glob("out.*"))


def test_a_truncated_program_is_refused() -> None:
    program = model() / "inference.json"
    program.write_bytes(program.read_bytes()[:1500])
    outcome = command("--fmk=PADDLE", "--modelFile=model", "--outputFile=out", ALL)
    assert outcome.status == 1
    assert "damaged" in outcome.err


def test_opt_takes_a_directory_or_both_files(capsys: pytest.CaptureFixture[str]) -> None:
    folder = model()
    assert run(f"--model_dir={folder}", "--optimize_out=one") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Loading topology data from {folder}/inference.json",
        f"Loading params data from {folder}/inference.pdiparams",
        "1. Model is successfully loaded!",
        "2. Model is optimized and saved into one.nb successfully",
    ]
    files = (f"--model_file={folder}/inference.json", f"--param_file={folder}/inference.pdiparams")
    assert run(*files, "--optimize_out=two") == 0
    assert Path("one.nb").read_bytes() == Path("two.nb").read_bytes()


def test_opt_stores_the_weights_of_a_directory_of_models_as_integers() -> None:
    for name, maker in (("a", float_model), ("b", fake_quantized_model)):
        Path("models").mkdir(exist_ok=True)
        model(maker, f"models/{name}")
    arguments = ("--model_set_dir=models", "--optimize_out=out", "--quant_model=true", "--quant_type=QUANT_INT8")
    assert run(*arguments, "--valid_targets=x86") == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["a.nb", "b.nb"]


def test_opt_lists_the_operators_of_a_model_by_the_names_of_older_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"--model_dir={model()}", "--print_model_ops=true") == 0
    shown = capsys.readouterr().out
    assert "Paddle-Lite supports this model!" in shown
    for name in ("conv2d", "batch_norm", "relu6", "flatten_contiguous_range", "mul", "elementwise_add"):
        assert f" {name} " in shown


def test_opt_names_operators_that_nothing_supports(capsys: pytest.CaptureFixture[str]) -> None:
    made = PirProgram()
    made.output(made.op("viterbi_decode", made.input("x", (2,))))
    assert run(f"--model_dir={made.save(Path('model'))}", "--print_model_ops=true") == 1
    assert "These unsupported ops are: 'pd_op.viterbi_decode'" in capsys.readouterr().err


@pytest.mark.parametrize("maker", [float_model, linear_quantized_model])
def test_programs_of_both_kinds_can_be_inspected(maker: Maker) -> None:
    save(Path("older"), *maker())
    shown = {
        path: command("inspect", str(path))
        for path in (model(maker) / "inference.json", Path("older/inference.pdmodel"))
    }
    for path, outcome in shown.items():
        assert (outcome.status, outcome.err) == (0, "")
        first, title, *rows = outcome.out.splitlines()
        assert first.startswith("Paddle program")
        assert ("PIR" in first) == (path.suffix == ".json")
        assert "2.6.2" in first or path.suffix == ".json"
        assert title.split()[:1] == ["operator"]
        assert any("image[?,3,8,8]" in row for row in rows if "conv2d" in row or "quantize_linear" in row)
        assert any(
            row.split()[:3] == ["conv.w", "int8" if maker is not float_model else "float32", "[4,3,3,3]"]
            for row in rows
        )
        assert "operators, " in rows[-1]


def test_what_cannot_be_inspected_is_reported() -> None:
    Path("damaged.json").write_text('{"base_code": 1}')
    Path("alone.pdiparams").touch()
    for name in ("damaged.json", "absent.json", "absent.pdmodel", "alone.pdiparams"):
        outcome = command("inspect", name)
        assert (outcome.status, outcome.err[:6]) == (1, "ERROR "), outcome
        assert name in outcome.err


def test_parameters_are_shown_with_the_program_beside_them() -> None:
    folder = model()
    shown = [command("inspect", str(folder / f"inference.{ending}")) for ending in ("json", "pdiparams")]
    assert shown[0].status == 0
    assert shown[0].out == shown[1].out


def test_a_batch_knows_programs_of_paddle_by_their_names() -> None:
    for name in ("a.json", "b.pdmodel", "c.nb", "d.onnx", "e.ms", "f"):
        Path(name).touch()
    jobs = jobs_of_models(["?.*", "f"], {}, "out")
    assert [job.flag("fmk") for job in jobs] == ["PADDLE", "PADDLE", "PADDLE", "ONNX", "MSLITE", "ONNX"]
    assert framework_of(Path("x/inference.json")) == "PADDLE"


def test_models_of_one_name_are_called_after_their_folders() -> None:
    """Paddle calls every program inference.json."""
    for name in ("a/inference.json", "b/inference.json", "b/other.onnx", "c/other.onnx", "c/net.onnx", "net.onnx"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    assert [job.name for job in jobs_of_models(["*/*.json", "c/*.onnx"], {}, "out")] == ["a", "b", "net", "other"]
    assert [job.name for job in jobs_of_models(["*/other.onnx"], {}, "out")] == ["b", "c"]
    for patterns in (["c/net.onnx", "net.onnx"], ["*/*.json", "a/*.json"], ["b/*", "c/other.onnx", "*/*.json"]):
        with pytest.raises(ConfigError, match="several jobs have the name"):
            jobs_of_models(patterns, {}, "out")


def test_a_mixed_batch_is_converted() -> None:
    folder = model()
    for path in folder.iterdir():
        path.rename(path.with_name(f"net{path.suffix}"))
    save(Path("older"), *float_model())
    outcome = command("batch", "model/*", "older/*", "--outputDir=out", "--set", "saveType=ONNX")
    assert outcome.status == 0, outcome
    assert sorted(path.name for path in Path("out").iterdir()) == ["inference.onnx", "net.onnx"]


def test_a_batch_converts_again_what_has_other_parameters_beside_it() -> None:
    line = ("batch", "model/inference.json", "--outputDir=out", "--set", "saveType=ONNX", "--resume")
    program, parameters = float_model()
    pir_twin(program, parameters).save(Path("model"))
    assert "1 converted, 0 as before" in command(*line).out
    assert "0 converted, 1 as before" in command(*line).out
    pir_twin(program, {**parameters, "conv.w": 2 * parameters["conv.w"]}).save(Path("model"))
    assert "1 converted, 0 as before" in command(*line).out


def test_a_program_of_paddle_3_is_compared_with_what_was_made_of_it() -> None:
    Path("q.cfg").write_text("[common_quant_param]\nquant_type=WEIGHT_QUANT\nbit_num=8\nmin_quant_weight_channel=0\n")
    made = command(
        *("--fmk=PADDLE", f"--modelFile={model()}", "--outputFile=out", "--saveType=ONNX", FIXED),
        "--configFile=q.cfg",
    )
    assert made.status == 0, made
    outcome = command("compare", "model/inference.json", "out.onnx", FIXED)
    assert outcome.status == 0, outcome


@pytest.mark.parametrize("files", [{}, {"model_filename": "inference.json", "params_filename": "inference.pdiparams"}])
def test_static_quantization_takes_models_of_paddle_3(files: dict[str, str]) -> None:
    pictures = [normal(1, 3, 8, 8, seed=seed) for seed in range(4)]
    result = quant_post_static(
        executor=None,
        model_dir=model(),
        quantize_model_path="static",
        sample_generator=pictures,
        quantizable_op_type=["conv2d"],
        algo="abs_max",
        save_type="ONNX,NAIVE_BUFFER",
        **files,
    )
    assert [artefact.path.name for artefact in result.artefacts] == ["static.onnx", "static.nb"]


def test_dynamic_quantization_takes_models_of_paddle_3() -> None:
    quant_post_dynamic(model(), "folder", model_filename="inference.json", save_type=["ONNX"])
    assert Path("folder/quantized_model.onnx").is_file()
