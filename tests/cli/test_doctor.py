"""``converter_lite doctor``: one screen before a conversion, and the exit status of that conversion."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import onnx
import pytest

from converter_lite.cli.doctor import EXTRAS
from converter_lite.formats.registry import FORMATS
from tests.cli.workshop import (
    DYNAMIC,
    FULL,
    SUCCESS,
    WEIGHT,
    Config,
    Outcome,
    Workshop,
    changed,
    command,
    ini,
    model_proto,
)
from tests.support import normal

SCREEN = 40


def configuration(config: Config) -> str:
    Path("quant.cfg").write_text(ini(config), encoding="utf-8")
    return "quant.cfg"


def doctor(*arguments: str) -> Outcome:
    outcome = command("doctor", *arguments)
    assert len(outcome.out.splitlines()) <= SCREEN
    return outcome


def test_model_samples_and_every_format_are_examined_and_nothing_is_written(workshop: Workshop) -> None:
    config = configuration(FULL)
    before = workshop.content()
    outcome = doctor("model.onnx", config)
    assert (outcome.status, outcome.err) == (0, "")
    assert workshop.content() == before
    titles = [line.split()[0] for line in outcome.out.splitlines() if not line.startswith(" ")]
    assert titles == ["processor", "versions", "extras", "model", "samples", "FULL_QUANT", "next"]
    for text in ("input 'x' float32 [?,3,8,8]", "output 'y' float32", "4 (BIN) from bins", *FORMATS):
        assert text in outcome.out
    assert "nodes quantized, about" in outcome.out
    for line, reasons in re.findall(r"(\d+ of \d+) nodes quantized.*\n((?: {29}.*\n)*)", outcome.out):
        quantized, nodes = map(int, line.split(" of "))
        assert nodes == quantized + sum(int(count) for count in re.findall(r"^ +(\d+) ", reasons, re.MULTILINE))


def test_the_command_that_it_ends_with_works(workshop: Workshop) -> None:
    outcome = doctor("model.onnx", configuration(FULL))
    done = command(*outcome.last_line.split()[2:])
    assert (done.status, done.last_line) == (0, SUCCESS)
    assert Path("model_quantized.onnx").is_file()


OPEN = "g (float[N,T,20] x) => (float[N,T,64] y) { y = MatMul(x, w) }"


@pytest.mark.parametrize(
    "flags", [(), ("--inputShape=x:1,4,20",), ("--inputShape=x:1,4,20", "--saveType=NAIVE_BUFFER")]
)
def test_that_command_has_its_flags_and_leaves_out_what_refuses(workshop: Workshop, flags: tuple[str, ...]) -> None:
    onnx.save(model_proto(OPEN, w=normal(20, 64)), "model.onnx")
    outcome = doctor("model.onnx", configuration(WEIGHT), *flags)
    assert ("a .ms file has fixed shapes" in outcome.out) == (not flags)
    assert "WARNING" not in outcome.out
    line = shlex.split(outcome.last_line)[2:]
    assert set(flags) <= set(line)
    assert ("--saveType=ONNX" in line) == (not flags)
    assert command(*line).last_line == SUCCESS


def test_a_key_of_one_format_is_idle_only_where_that_is_not_asked_for(workshop: Workshop) -> None:
    onnx.save(model_proto(OPEN, w=normal(20, 64)), "model.onnx")
    config = configuration(changed(WEIGHT, common_quant_param={"enable_encode": "true"}))
    assert "WARNING" not in doctor("model.onnx", config).out
    assert "enable_encode: has no effect on ONNX files" in doctor("model.onnx", config, "--saveType=ONNX").out


def test_a_format_that_lacks_operators_names_the_first(workshop: Workshop) -> None:
    onnx.save(model_proto("g (float[2,3,3] x) => (float[2] y) { y = Det(x) }"), "model.onnx")
    outcome = doctor("model.onnx", configuration({}))
    assert (
        "refused: 1 of 1 nodes cannot be written as .nb for arm: node_y (Det): this operator is not written"
        in outcome.out
    )


def test_the_flags_are_kept_where_a_configuration_is_to_be_made_first(workshop: Workshop) -> None:
    flags = ["--fmk=ONNX", "--inputShape=x:1,3,8,8", "--allowExternalPaths", "--saveType=ONNX"]
    outcome = doctor("model.onnx", *flags)
    assert shlex.split(outcome.last_line)[-6:] == ["model.onnx", "full_quant.cfg", *flags]


def test_the_model_may_be_the_working_directory(workshop: Workshop) -> None:
    for command_line in (("doctor", "."), ("sensitivity", "--modelFile=.", f"--configFile={configuration(FULL)}")):
        outcome = command(*command_line, "--fmk=ONNX")
        assert (outcome.status, outcome.errors) == (1, "ERROR .: this is a directory, not a model file\n")


def test_without_a_configuration_every_kind_of_quantization_is_shown(workshop: Workshop) -> None:
    outcome = doctor("model.onnx")
    assert outcome.status == 0
    for kind in ("FULL_QUANT", "WEIGHT_QUANT", "DYNAMIC_QUANT"):
        assert f"\n{kind}" in outcome.out
    assert "refused: a .nb file for arm has no dynamic quantization" in outcome.out
    assert outcome.last_line.endswith("full_quant.cfg && converter_lite doctor model.onnx full_quant.cfg")


@pytest.mark.parametrize(
    ("section", "key", "text", "status", "message"),
    [
        ("data_preprocess_param", "calibrate_path", "xx:bins", 1, "the model has no input 'xx' (did you mean 'x'?)"),
        ("data_preprocess_param", "calibrate_path", "x:absent", 1, "absent"),
        ("data_preprocess_param", "calibrate_size", "9999", 1, "9999"),
        ("common_quant_param", "quant_type", "FULL", 2, "quant_type"),
        ("common_quant_param", "skip_quant_node", "nobody", 2, "nobody"),
    ],
)
def test_a_problem_is_told_with_the_status_that_a_conversion_has(
    workshop: Workshop, section: str, key: str, text: str, status: int, message: str
) -> None:
    config = configuration(changed(FULL, **{section: {key: text}}))
    outcome = doctor("model.onnx", config)
    flags = ("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", f"--configFile={config}")
    assert outcome.status == status == command(*flags).status
    assert outcome.err.startswith("ERROR ")
    assert message in outcome.err
    assert outcome.out.startswith("processor")


def test_a_format_that_refuses_fails_only_if_it_was_asked_for(workshop: Workshop) -> None:
    config = configuration(DYNAMIC)
    assert doctor("model.onnx", config).status == 0
    outcome = doctor("model.onnx", config, "--saveType=NAIVE_BUFFER,ONNX")
    assert outcome.status == 2
    assert "ERROR a .nb file for arm has no dynamic quantization" in outcome.err
    assert "ONNX         1 of" in outcome.out


def test_a_quantized_model_is_called_one(workshop: Workshop) -> None:
    flags = ("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=done", "--saveType=ONNX")
    assert command(*flags, f"--configFile={configuration(WEIGHT)}").status == 0
    outcome = doctor("done.onnx")
    assert outcome.status == 0
    assert "quantized already" in outcome.out
    assert doctor("done.onnx", configuration(WEIGHT)).status == 1


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [("absent.onnx", 1, "does not exist"), ("model.bin", 2, "give it with --fmk"), ("bins", 2, "give it with --fmk")],
)
def test_what_is_no_model_is_refused(workshop: Workshop, name: str, status: int, message: str) -> None:
    outcome = doctor(name)
    assert (outcome.status, "next" in outcome.out) == (status, False)
    assert message in outcome.err


def test_every_extra_that_a_user_installs_is_looked_for() -> None:
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    table = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    assert set(re.findall(r"^(\w+) = \[", table, flags=re.MULTILINE)) == {*EXTRAS, "docs", "fuzz", "dev"}
