"""The command that the page shows asks for the same conversion."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest

from converter_lite.cli.converter_lite import cli
from converter_lite.config.parser import parse_config
from converter_lite.pipeline.command_line import SWITCHES, WITHOUT_FLAG, command_line
from converter_lite.pipeline.request import ConvertRequest

REQUESTS = {
    "the least": [],
    "paths with spaces": ["--configFile=my configs/full quant.cfg", "--report=out/a page.html"],
    "shapes": ["--inputShape=x:1,3,8,8;y:2"],
    "switches": ["--fp16=on", "--infer=true", "--dryRun", "--allowExternalPaths", "--uint8Weights=on"],
    "of formats": ["--saveType=NAIVE_BUFFER,MINDIR_LITE", "--nbTarget=x86", "--msCompat=wheel"],
    "numbers": ["--minCosine=0.99999991", "--minSpeedup=1.2345678", "--threads=2"],
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_command_gives_the_same_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--fmk=PADDLE", "--modelFile=a model.pdmodel", "--outputFile=out", *REQUESTS[name]]
    first = _request(given, monkeypatch)
    program, *again = shlex.split(command_line(first))
    assert program == "converter_lite"
    assert sorted(again) == sorted(given)
    assert _request(again, monkeypatch) == first


def _request(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> ConvertRequest:
    """What the command line makes of arguments, not carried out."""
    made: list[ConvertRequest] = []
    monkeypatch.setattr("converter_lite.cli.converter_lite._convert", lambda request, **_: made.append(request))
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert not ended.value.code
    return made[0]


def test_every_option_of_a_request_has_a_flag_or_is_for_python() -> None:
    flags = {option.name for option in cli.params if isinstance(option, click.Option)}
    options = {entry.name for entry in fields(ConvertRequest)}
    assert options - set(WITHOUT_FLAG) - flags <= {"nb_meta_version", "nb_sparse_threshold", "nb_protobuf"}  # of opt
    assert set(SWITCHES) <= options


def test_a_configuration_in_memory_has_no_command() -> None:
    config = parse_config("[common_quant_param]\nquant_type=DYNAMIC_QUANT\n")
    assert not command_line(ConvertRequest(Path("m.onnx"), Path("out"), config=config))
