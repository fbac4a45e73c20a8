"""Every flag with good and bad values."""

import click
import pytest

from converter_lite.cli.converter_lite import MAY_BE_EMPTY, cli
from converter_lite.cli.opt import cli as opt
from tests.cli.workshop import FULL, Workshop, command

BAD = [
    ("--fmk=onnx", "--fmk", "did you mean ONNX?"),
    ("--fmk=", "--fmk", "the value is empty"),
    ("--modelFile=", "--modelFile", "the value is empty"),
    ("--outputFile=", "--outputFile", "the value is empty"),
    ("--outputFile=folder/", "--outputFile=folder/", "names a directory"),
    ("--outputFile=bins", "bins", "names a directory"),
    ("--modelFile=x\0.onnx", "model_file", "zero byte"),
    ("--weightFile=w.caffemodel", "--weightFile", "only CAFFE, PADDLE"),
    ("--configFile=absent.cfg", "absent.cfg", "No such file"),
    ("--inputShape=x", "--inputShape", "is not a shape"),
    ("--inputShape=x:", "--inputShape", "is not a shape"),
    ("--inputShape=:1,3,8,8", "--inputShape", "is not a shape"),
    ("--inputShape=x:-1,3,8,8", "--inputShape", "is not a shape"),
    ("--inputShape=x:0,3,8,8", "--inputShape", "is not a shape"),
    ("--inputShape=x:1_0,3,8,8", "--inputShape", "is not a shape"),
    ("--inputShape=x:1.0,3,8,8", "--inputShape", "is not a shape"),
    ("--inputShape=;", "--inputShape", "is not a shape"),
    ("--inputShape=x:1,3,8,8;x:1,3,8,8", "--inputShape", "given twice"),
    ("--inputShape=xx:1,3,8,8", "inputShape", "did you mean 'x'?"),
    ("--inputShape=x:1,3,8", "inputShape", "4 dimensions"),
    ("--inputShape=x:1,3,8,9", "inputShape", "is 8, not 9"),
    ("--inputValue=x", "--inputValue", "is not a value"),
    ("--inputValue=x:", "--inputValue", "is not a value"),
    ("--inputValue=x:one", "--inputValue", "is not a value"),
    ("--inputValue=x:nan", "--inputValue", "is not a value"),
    ("--inputValue=x:1;x:2", "--inputValue", "given twice"),
    ("--inputValue=xx:1", "--inputValue", "did you mean x?"),
    ("--inputValue=x:1,2", "--inputValue", "elements, not 2"),
    ("--inputValue=x:1", "--inputValue", "no input would be left"),
    ("--inputDataFormat=NWHC", "--inputDataFormat", "did you mean"),
    ("--inputDataType=FLOAT32", "--inputDataType", "did you mean FLOAT?"),
    ("--outputDataType=INT32", "--outputDataType", "is not one of"),
    ("--outputDataType=INT64", "--outputDataType", "is not one of"),
    ("--fp16=true", "--fp16", "on, off"),
    ("--nbFp16=true", "--nbFp16", "on, off"),
    ("--keepMetadata=true", "--keepMetadata", "on, off"),
    ("--optimize=generel", "--optimize", "did you mean general?"),
    ("--optimize=general:Ascend310", "--optimize", "ascend_oriented"),
    ("--optimize=ascend_oriented:", "--optimize", "ascend_oriented"),
    ("--saveType=onnx", "--saveType", "did you mean ONNX?"),
    ("--saveType=ONNX,TFLITE", "--saveType=TFLITE", "this is no output format"),
    ("--infer=yes", "--infer", "true, false"),
    ("--minCosine=2", "--minCosine", "from -1 to 1"),
    ("--minCosine=nan", "--minCosine", "from -1 to 1"),
    ("--minCosine=high", "--minCosine", "from -1 to 1"),
    ("--threads=-1", "--threads", "0 to 1024"),
    ("--threads=1025", "--threads", "0 to 1024"),
    ("--threads=two", "--threads", "0 to 1024"),
]

REFUSED = [
    *((f"--fmk={name}", "ONNX") for name in ("OM", "KIRIN", "THIRDPARTY")),
    ("--trainModel=true", "training models"),
    ("--device=Ascend310", "target_device"),
    ("--optimizeTransformer=true", "transformer"),
    ("--saveType=MINDIR", "MindIR"),
]

GOOD = [
    "--inputShape=x:2,3,8,8",
    "--inputShape= x:2,3,8,8; ",
    "--inputDataFormat=NHWC",
    "--inputDataFormat=NCHW",
    "--inputDataType=DEFAULT",
    "--inputDataType=FLOAT",
    "--inputDataType=FLOAT16",
    "--outputDataType=DEFAULT",
    "--outputDataType=FLOAT",
    "--outputDataType=FLOAT16",
    "--fp16=on",
    "--fp16=off",
    "--nbFp16=off",
    "--optimize=none",
    "--optimize=general",
    "--optimize=gpu_oriented",
    "--optimize=ascend_oriented",
    "--optimize=ascend_oriented:Ascend310P3",
    "--saveType=ONNX",
    "--saveType=ONNX,ONNX",
    "--infer=true",
    "--infer=false",
    "--minCosine=-1",
    "--minCosine=0.999",
    "--threads=0",
    "--threads=3",
    "-v",
    "--verbose",
    "--quiet",
    "--dryRun",
    "--json=result.json",
    "--weightFile=",
    "--trainModel=false",
    "--encryption=false",
    "--optimizeTransformer=false",
    "--decryptMode=AES-GCM",
]


@pytest.mark.parametrize(("flag", "place", "reason"), BAD)
def test_a_bad_value_is_refused_with_the_flag_and_the_reason(
    workshop: Workshop, flag: str, place: str, reason: str
) -> None:
    name = flag.split("=")[0]
    required = {"--fmk": "ONNX", "--modelFile": "model.onnx", "--outputFile": "out"}
    before = workshop.content()
    outcome = command(*(f"{key}={text}" for key, text in required.items() if key != name), flag)
    assert (outcome.status, outcome.last_line) == (2, "CONVERT RESULT FAILED:2")
    assert outcome.err.startswith("ERROR ")
    assert place in outcome.err
    assert reason in outcome.err
    assert workshop.content() == before


@pytest.mark.parametrize(("flag", "reason"), REFUSED)
def test_a_known_flag_without_its_feature_is_refused_with_a_sentence(
    workshop: Workshop, flag: str, reason: str
) -> None:
    rest = ["--modelFile=model.onnx", "--outputFile=out", *(() if "--fmk" in flag else ("--fmk=ONNX",))]
    outcome = command(*rest, flag)
    assert outcome.status == 2
    assert outcome.err.startswith(f"ERROR {flag}: ")
    assert reason in outcome.err


@pytest.mark.parametrize("flag", GOOD)
def test_a_good_value_converts(workshop: Workshop, flag: str) -> None:
    workshop.succeed(flag)
    assert (workshop.folder / "out.onnx").exists() == (flag != "--dryRun")


@pytest.mark.parametrize("missing", ["fmk", "modelFile", "outputFile"])
def test_a_missing_required_flag_is_named(workshop: Workshop, missing: str) -> None:
    flags = {"fmk": "ONNX", "modelFile": "model.onnx", "outputFile": "out"}
    outcome = command(*(f"--{name}={text}" for name, text in flags.items() if name != missing))
    assert (outcome.status, outcome.last_line) == (2, "CONVERT RESULT FAILED:2")
    assert f"--{missing}: the flag is required" in outcome.err


def test_all_missing_flags_are_named_at_once() -> None:
    assert "ERROR --modelFile, --outputFile: these flags are required" in command("--fmk=ONNX").err


def flags_of(program: click.Command, *, of_files: bool = False) -> list[str]:
    """Long flags that take a value; of files alone, if that is wanted."""
    options = [option for option in program.params if isinstance(option, click.Option) and not option.is_flag]
    wanted = [option for option in options if not of_files or option.metavar == "FILE"]
    return [name for option in wanted for name in option.opts if name.startswith("--")]


REQUIRED = ("--fmk", "--modelFile", "--outputFile")


@pytest.mark.parametrize("flag", [flag for flag in flags_of(cli) if flag not in (*REQUIRED, *MAY_BE_EMPTY)])
@pytest.mark.parametrize("form", [1, 2])
def test_an_empty_value_never_switches_off_what_was_asked_for(workshop: Workshop, flag: str, form: int) -> None:
    given = ["--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out"]
    before = workshop.content()
    outcome = command(*given, *([f"{flag}="] if form == 1 else [flag, ""]))
    assert (outcome.status, f"{flag}: the value is empty" in outcome.err, workshop.content() == before) == (
        2,
        True,
        True,
    )


@pytest.mark.parametrize(("name", "flag"), [(n, flag) for n, c in cli.commands.items() for flag in flags_of(c)])
def test_no_command_takes_an_empty_value(workshop: Workshop, name: str, flag: str) -> None:
    if flag not in MAY_BE_EMPTY:
        outcome = command(name, "model.onnx", f"{flag}=")
        assert (outcome.status, f"{flag}: the value is empty" in outcome.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "flag"),
    [(n, flag) for n, program in {"": cli, **cli.commands}.items() for flag in flags_of(program, of_files=True)],
)
def test_a_file_is_not_called_like_a_folder(workshop: Workshop, name: str, flag: str) -> None:
    before = workshop.content()
    outcome = command(*filter(None, [name]), f"{flag}=results/")
    assert (outcome.status, f"ERROR {flag}=results/: the path is a directory" in outcome.err) == (2, True)
    assert workshop.content() == before


@pytest.mark.parametrize("formats", [",", " ", ", ,"])
def test_a_list_without_a_format_is_refused(workshop: Workshop, formats: str) -> None:
    assert f"--saveType={formats}: no format is named" in workshop.fail(2, f"--saveType={formats}")


@pytest.mark.parametrize("flag", ["--outputFile", "--configFile", "--savePlan"])
def test_a_flag_without_a_value_does_not_take_the_next_flag_for_it(workshop: Workshop, flag: str) -> None:
    given = ["--fmk=ONNX", f"--modelFile={workshop.model}", flag, "--saveType=ONNX"]
    outcome = command(*given)
    assert outcome.status == 2
    assert f"{flag}: the value is missing: --saveType=ONNX follows" in outcome.err


def test_no_value_begins_like_a_flag() -> None:
    outcome = command("--fmk=ONNX", "--modelFile=m.onnx", "--outputFile=--configFile=c.cfg")
    assert (outcome.status, "--outputFile=--configFile=c.cfg: the value begins with" in outcome.err) == (2, True)
    outcome = command("--model_file=m.onnx", "--optimize_out=--valid_targets=arm", program=opt)
    assert (outcome.status, "--optimize_out=--valid_targets=arm: the value begins with" in outcome.err) == (2, True)


def test_a_wrong_line_of_another_command_is_not_a_failed_conversion() -> None:
    outcome = command("compare")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "ERROR Missing argument 'FLOAT_MODEL'.\n  converter_lite compare --help lists the flags\n"


@pytest.mark.parametrize("flag", ["--fmk=ONNX", "--threads=1", "--dryRun"])
def test_a_repeated_flag_is_refused(workshop: Workshop, flag: str) -> None:
    message = workshop.fail(2, *([flag] if "fmk" in flag else [flag, flag]))
    assert f"{flag.split('=')[0]}: the flag is given twice" in message


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--modelfile=m", "--modelFile"),
        ("--config=c", "--configFile"),
        ("--input_shape=x:1", "--inputShape"),
        ("--savetype=ONNX", "--saveType"),
        ("--mincosine=0.9", "--minCosine"),
        ("--dry-run", "--dryRun"),
    ],
)
def test_an_unknown_flag_names_the_nearest_one(workshop: Workshop, given: str, meant: str) -> None:
    message = workshop.fail(2, given)
    assert given.split("=")[0] in message
    assert meant in message


@pytest.mark.parametrize("argument", ["model.onnx", "fmk=ONNX", "-fmk=ONNX", "--", "-"])
def test_an_argument_that_is_no_flag_is_refused(workshop: Workshop, argument: str) -> None:
    outcome = workshop.convert(argument, "stray")
    assert outcome.status == 2
    assert outcome.last_line == "CONVERT RESULT FAILED:2"


@pytest.mark.parametrize("flag", ["--modelFile", "--threads", "--json"])
def test_a_flag_without_its_value_is_refused(flag: str) -> None:
    outcome = command("--fmk=ONNX", flag)
    assert outcome.status == 2
    assert flag in outcome.err


@pytest.mark.parametrize("arguments", [["template", "full_quant"], ["inspect", "model.onnx"], ["batch", "model.onnx"]])
def test_a_command_behind_flags_of_a_conversion_is_refused(workshop: Workshop, arguments: list[str]) -> None:
    outcome = command("--fmk=ONNX", "--quiet", *arguments)
    assert (outcome.status, outcome.last_line) == (2, "CONVERT RESULT FAILED:2")
    assert f"{arguments[0]}: flags of a conversion have no effect here" in outcome.err


def test_v_and_quiet_exclude_each_other(workshop: Workshop) -> None:
    assert "exclude each other" in workshop.fail(2, "-v", "--quiet")


def test_quiet_prints_the_closing_line_only(workshop: Workshop) -> None:
    assert workshop.succeed("--quiet", config=FULL).out == "CONVERT RESULT SUCCESS:0\n"


def test_verbose_prints_the_decision_for_each_node(workshop: Workshop) -> None:
    out = workshop.succeed("-v", config=FULL).out
    assert "node_y (Gemm): integer" in out


@pytest.mark.parametrize("flags", [[], ["--help"], ["-h"], ["--fmk=ONNX", "--help"]])
def test_help_lists_every_flag_and_ends_with_0(flags: list[str]) -> None:
    outcome = command(*flags)
    assert outcome.status == 0
    names = ("fmk", "modelFile", "outputFile", "configFile", "inputShape", "inputDataFormat", "inputDataType", "fp16")
    ours = ("saveType", "infer", "minCosine", "plan", "savePlan", "dryRun", "json", "threads", "cache", "quiet")
    assert [name for name in (*names, "outputDataType", "optimize", *ours) if f"--{name}" not in outcome.out] == []


def test_version_is_that_of_the_package() -> None:
    import converter_lite

    assert converter_lite.__version__ in command("--version").out
