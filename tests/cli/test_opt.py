"""The ``opt`` command: the original's flags and lines, clear errors, exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.cli.opt import NOT_AVAILABLE, REFUSED_TARGETS, cli
from converter_lite.cli.opt_arguments import normalize
from converter_lite.errors import UsageError
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from tests.formats.paddle.inference_models import fake_quantized_model, float_model, save
from tests.formats.paddle.models import small_network
from tests.support import build


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as done:
        cli.main(list(arguments))
    return int(done.value.code or 0)


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    ir.save(small_network(), path)
    return path


@pytest.fixture
def paddle_folder(tmp_path: Path) -> Path:
    return save(tmp_path / "paddle", *float_model())


def test_a_paddle_model_is_converted_with_the_originals_lines(
    paddle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"--model_dir={paddle_folder}", f"--optimize_out={tmp_path / 'out'}") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Loading topology data from {paddle_folder}/inference.pdmodel",
        f"Loading params data from {paddle_folder}/inference.pdiparams",
        "1. Model is successfully loaded!",
        f"2. Model is optimized and saved into {tmp_path}/out.nb successfully",
    ]
    assert parse((tmp_path / "out.nb").read_bytes()).program.main.operators[1].get("with_act")


def test_an_onnx_model_needs_no_parameter_file_and_the_suffix_is_not_doubled(onnx_file: Path, tmp_path: Path) -> None:
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'out.nb'}", "--valid_targets=x86") == 0
    assert [path.name for path in tmp_path.glob("*.nb*")] == ["out.nb"]


@pytest.mark.parametrize(
    "spelling",
    [
        ["--quant_model=true"],
        ["--quant_model=True"],
        ["--quant_model=TRUE"],
        ["--quant_model"],
        ["--quant_model", "true"],
        ["-quant_model=1"],
        ["--quant_model=", "true"],
    ],
)
def test_booleans_are_understood_in_every_spelling(spelling: list[str], onnx_file: Path, tmp_path: Path) -> None:
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'q'}", *spelling) == 0
    assert read((tmp_path / "q.nb").read_bytes()).plan.quantized_nodes


@pytest.mark.parametrize("spelling", ["--noquant_model", "--quant_model=false", "--quant_model=False"])
def test_a_switched_off_boolean_changes_nothing(spelling: str, onnx_file: Path, tmp_path: Path) -> None:
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'q'}", spelling) == 0
    assert read((tmp_path / "q.nb").read_bytes()).plan.quantized_nodes == []


def test_a_value_that_is_no_boolean_is_refused() -> None:
    with pytest.raises(UsageError, match="neither true nor false"):
        normalize(["--quant_model=maybe"])


@pytest.mark.parametrize(("kind", "dtype"), [("QUANT_INT8", np.int8), ("QUANT_INT16", np.int16)])
def test_quant_type_says_the_width_of_the_weights(kind: str, dtype: type, onnx_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "q"
    assert run(f"--model_file={onnx_file}", f"--optimize_out={out}", "--quant_model=true", f"--quant_type={kind}") == 0
    stored = parse(out.with_suffix(".nb").read_bytes()).parameters.values()
    assert any(array.dtype == dtype for array in stored)


def test_the_originals_variable_asks_for_the_older_layout(
    onnx_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDLE_LITE_MODEL_VERSION1", "1")
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'old'}") == 0
    assert parse((tmp_path / "old.nb").read_bytes()).meta_version == 1


@pytest.mark.parametrize(
    ("targets", "target"),
    [
        *[(["arm"], "arm"), (["x86"], "x86"), (["arm,x86"], "arm"), (["x86 arm"], "x86"), (["x86", "arm"], "x86")],
        *[(["x86,", "arm"], "x86"), (["x86", ",", "arm"], "x86"), (["", "x86", "arm"], "x86")],
    ],
)
def test_the_first_of_several_targets_counts(targets: list[str], target: str, onnx_file: Path, tmp_path: Path) -> None:
    first, *more = targets
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 't'}", f"--valid_targets={first}", *more) == 0
    assert read((tmp_path / "t.nb").read_bytes()).plan.target == target


@pytest.mark.parametrize("target", REFUSED_TARGETS)
def test_a_target_that_only_the_original_can_write_is_refused_with_what_to_do(
    target: str, onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 't'}", f"--valid_targets={target}") == 2
    assert capsys.readouterr().err == (
        f"Error: --valid_targets: files for {target} need graph passes that only the original's opt has\n"
        "  use arm, x86 or host here, or that opt\n"
    )
    assert not (tmp_path / "t.nb").exists()


def test_a_target_that_only_the_original_can_write_is_left_out_beside_another(
    onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = f"--optimize_out={tmp_path / 't'}"
    assert run(f"--model_file={onnx_file}", out, "--valid_targets=opencl,arm") == 0
    assert "opencl cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--valid_targets=arn"], "did you mean arm"),
        (["--quant_type=QUANT_INT4", "--model_file=m", "--optimize_out=o"], "QUANT_INT4"),
        (["--optimized_nb_model_path=m.nb"], "both flags"),
        (["--optimized_nb_model_path=m.nb", "--visualization_file_output_path=d"], "does not exist"),
        (["--sparse_threshold=7"], "--sparse_threshold=7: the threshold is not from 0 to 1"),
        (["--sparse_threshold=nan"], "--sparse_threshold=nan: the threshold is not from 0 to 1"),
        (["--sparse_threshold=a lot"], "--sparse_threshold=a lot: the threshold is not from 0 to 1"),
        (["--model_file=m.onnx", "--optimize_out=o", "--configFile=c", "--sparse_model"], "--model_file=result.nb"),
        (["--optimize_out_type=buffer", "--model_file=m", "--optimize_out=o"], "buffer"),
        (["--unknown_flag=1"], "unknown_flag"),
        (["--model_dir=nowhere", "--optimize_out=o"], "nowhere"),
        (["--model_file=nowhere.onnx", "--optimize_out=o"], "does not exist"),
        (["--model_file=m.onnx"], "optimize_out"),
        (["--model_file=m.onnx", "--optimize_out=folder/"], "a file name is required"),
        (["--model_file=m.onnx", "--optimize_out=.."], "a file name is required"),
        (["--model_file=m.onnx", "--optimize_out_type=protobuf"], "a directory is required"),
        (["--print_model_ops=true"], "there is no model"),
        (["--param_file=m.pdiparams", "--optimize_out=o"], "there is no model"),
        (["--valid_targets=arm"], "there is no model"),
        (["--model_file=m.onnx", "--optimize_out=o", "stray"], "stray: the word belongs to no flag"),
        (["--quant_model", "maybe"], "'maybe' is neither true nor false"),
        (["--model_file=m.onnx", "--optimize_out", "--quant_model"], "a file name is required"),
        (["--model_file=m.onnx", "--optimize_out=o", "--configFile="], "--configFile: the value is empty"),
        (["--model_file=m.onnx", "--optimize_out=o", "--inputShape="], "--inputShape: the value is empty"),
        (["--model_file=m.onnx", "--optimize_out=o", "--configFile=c", "--quant_model"], "--quant_model says it too"),
    ],
)
def test_wrong_usage_is_reported_with_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err


def test_a_blank_behind_the_equals_sign_does_no_harm(paddle_folder: Path, tmp_path: Path) -> None:
    """As the manual of Paddle-Lite prints it."""
    assert run("--model_dir=", str(paddle_folder), "--optimize_out=", str(tmp_path / "out")) == 0
    assert (tmp_path / "out.nb").is_file()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--param_file=m.pdiparams"], "--param_file is not read"),
        (["--quant_type=QUANT_INT8"], "weights stay float"),
        (["--model_dir=absent"], "--model_dir changes nothing beside --model_file"),
        (["--model_filename=m"], "--model_filename changes nothing"),
        (["--sparse_threshold=0.5"], "--sparse_threshold changes nothing without --sparse_model=true"),
    ],
)
def test_a_flag_without_effect_is_reported(
    flags: list[str], message: str, onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'out'}", *flags) == 0
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("listing", "idle"),
    [
        (["--print_all_ops"], "--model_file, --optimize_out, --quant_model change nothing beside --print_all_ops"),
        (["--print_model_ops"], "--optimize_out, --quant_model change nothing beside --print_model_ops"),
        (
            ["--optimized_nb_model_path={out}.nb", "--visualization_file_output_path={out}"],
            "--model_file, --optimize_out, --quant_model change nothing beside --optimized_nb_model_path",
        ),
    ],
    ids=["table", "operators", "drawing"],
)
def test_a_listing_names_the_flags_that_it_does_not_look_at(
    listing: list[str], idle: str, onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, model = tmp_path / "out", f"--model_file={onnx_file}"
    assert run(model, f"--optimize_out={out}") == 0
    assert capsys.readouterr().err.count("Warning") == 0
    flags = [flag.format(out=out) for flag in listing]
    assert run(model, f"--optimize_out={tmp_path / 'not_made'}", "--quant_model", *flags) == 0
    assert capsys.readouterr().err == f"Warning: {idle}, which converts nothing\n"
    assert not list(tmp_path.glob("not_made*"))


def test_of_a_flag_that_is_given_twice_the_last_one_counts_and_is_reported(
    onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    status = run(f"--model_file={onnx_file}", f"--optimize_out={first}", f"--optimize_out={last}")
    assert (status, first.with_suffix(".nb").exists(), last.with_suffix(".nb").exists()) == (0, False, True)
    assert "--optimize_out is given more than once" in capsys.readouterr().err


@pytest.mark.parametrize("flag", NOT_AVAILABLE)
def test_a_known_flag_without_its_feature_is_refused_with_a_sentence(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"--{flag}=x") == 2
    assert NOT_AVAILABLE[flag] in capsys.readouterr().err


@pytest.mark.parametrize(("suffix", "framework"), [(".tflite", "TFLITE"), (".prototxt", "CAFFE"), (".pt2", "PYTORCH")])
def test_a_model_of_another_framework_is_refused_with_the_command_for_it(
    suffix: str, framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / f"net{suffix}"
    model.write_bytes(b"anything")
    assert run(f"--model_file={model}", f"--optimize_out={tmp_path / 't'}") != 0
    said = capsys.readouterr().err
    assert f"opt takes models of Paddle and ONNX; by its name this is one for --fmk={framework}" in said
    assert f"converter_lite --fmk={framework} --modelFile={model} --saveType=NAIVE_BUFFER" in said


def test_a_hint_with_a_flag_of_the_other_command_names_that_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ir.save(build("g (float[4,4] x) => (float[] y) { y = Det(x) }"), tmp_path / "m.onnx")
    assert run(f"--model_file={tmp_path / 'm.onnx'}", f"--optimize_out={tmp_path / 'out'}") != 0
    assert "use converter_lite --saveType=ONNX, or change the model" in capsys.readouterr().err


def test_a_damaged_model_leaves_nothing_behind(
    paddle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = paddle_folder / "inference.pdmodel"
    program.write_bytes(program.read_bytes()[:200])
    assert run(f"--model_dir={paddle_folder}", f"--optimize_out={tmp_path / 'new' / 'out'}") == 1
    assert "Error" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_model_with_nan_in_its_weights_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, parameters = float_model()
    next(array for array in parameters.values() if array.ndim == 4)[0, 0, 0, 0] = np.nan
    folder = save(tmp_path / "paddle", program, parameters)
    assert run(f"--model_dir={folder}", f"--optimize_out={tmp_path / 'out'}") == 1
    assert "NaN" in capsys.readouterr().err


def test_the_output_may_not_be_the_input(tmp_path: Path, onnx_file: Path) -> None:
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'a'}", "--valid_targets=x86") == 0
    before = (tmp_path / "a.nb").read_bytes()
    assert run(f"--model_file={tmp_path / 'a.nb'}", f"--optimize_out={tmp_path / 'a'}", "--valid_targets=arm") == 2
    assert (tmp_path / "a.nb").read_bytes() == before
    assert run(f"--model_file={tmp_path / 'a.nb'}", f"--optimize_out={tmp_path / 'b'}", "--valid_targets=arm") == 0


def test_a_quantized_paddle_model_is_full_int8_on_arm_and_weights_only_on_x86(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(tmp_path / "ptq", *fake_quantized_model())
    for target in ("arm", "x86"):
        assert run(f"--model_dir={folder}", f"--optimize_out={tmp_path / target}", f"--valid_targets={target}") == 0
    kinds = {
        target: {op.get("enable_int8") for op in parse((tmp_path / f"{target}.nb").read_bytes()).program.main.operators}
        for target in ("arm", "x86")
    }
    assert kinds == {"arm": {None, True}, "x86": {None}}
    assert "saturate" in capsys.readouterr().err


def test_a_protobuf_result_is_a_folder_that_reads_back_as_the_same_function(
    paddle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (f"--model_dir={paddle_folder}", "--valid_targets=x86")
    assert run(*flags, f"--optimize_out={tmp_path / 'made'}/", "--optimize_out_type=protobuf") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1. Model is successfully loaded!"
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["model", "params"]
    assert run(*flags, f"--optimize_out={tmp_path / 'direct'}") == 0
    assert run(f"--model_dir={tmp_path / 'made'}", "--valid_targets=x86", f"--optimize_out={tmp_path / 'again'}") == 0
    kinds = [
        [op.type for op in parse((tmp_path / name).read_bytes()).program.main.operators]
        for name in ("direct.nb", "again.nb")
    ]
    assert kinds[0] == kinds[1]


def test_a_protobuf_result_does_not_replace_the_model_it_is_made_from(
    paddle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made"
    assert run(f"--model_dir={paddle_folder}", f"--optimize_out={paddle_folder}", "--optimize_out_type=protobuf") == 2
    assert "would be found in its place" in capsys.readouterr().err
    assert len(list(paddle_folder.iterdir())) == 2
    flags = (f"--optimize_out={made}", "--optimize_out_type=protobuf")
    assert run(f"--model_dir={paddle_folder}", *flags) == 0
    before = {path: path.read_bytes() for path in made.iterdir()}
    assert run(f"--model_dir={made}", *flags, "--valid_targets=x86", "--quant_model") == 2
    assert f"{made}/model: the output would overwrite an input" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in made.iterdir()} == before


@pytest.mark.parametrize("name", ["net.nb", "net.onnx"])
def test_the_directory_of_a_model_may_be_called_like_a_file(name: str, tmp_path: Path) -> None:
    folder = save(tmp_path / name, *float_model())
    assert run(f"--model_dir={folder}", f"--optimize_out={tmp_path / 'out'}") == 0
    assert (tmp_path / "out.nb").is_file()


def test_a_paddle_model_with_integer_weights_keeps_them(onnx_file: Path, tmp_path: Path) -> None:
    """Attributes as ``quant_post_dynamic`` of PaddleSlim leaves them."""
    flags = ("--quant_model=true", "--quant_type=QUANT_INT8")
    made, direct, again = (tmp_path / name for name in ("made", "direct", "again"))
    assert run(f"--model_file={onnx_file}", *flags, f"--optimize_out={made}", "--optimize_out_type=protobuf") == 0
    assert run(f"--model_file={onnx_file}", *flags, f"--optimize_out={direct}") == 0
    assert run(f"--model_dir={made}", f"--optimize_out={again}") == 0
    assert (tmp_path / "again.nb").read_bytes() == (tmp_path / "direct.nb").read_bytes()


def test_a_file_is_drawn_block_by_block(onnx_file: Path, tmp_path: Path) -> None:
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'm'}") == 0
    flags = (f"--optimized_nb_model_path={tmp_path / 'm.nb'}", f"--visualization_file_output_path={tmp_path / 'd'}")
    assert run(*flags) == 0
    lines = (tmp_path / "d" / "Block_0.dot").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("digraph G {", "} // end G")
    assert sum('fillcolor="yellow"' in line for line in lines) == 10
    assert sum("->" in line for line in lines) > 20


def test_tailoring_lists_the_operators_and_kernels_of_the_file(
    onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "t"
    assert run(f"--model_file={onnx_file}", f"--optimize_out={out}", "--record_tailoring_info=true") == 0
    assert (out / ".tailored_ops_list").read_text().splitlines()[:2] == ["conv2d", "depthwise_conv2d"]
    assert "conv2d,kARM,kFloat,kNCHW,def" in (out / ".tailored_kernels_list").read_text().splitlines()
    sources = [(out / f".tailored_{what}_source_list").read_text().splitlines() for what in ("ops", "kernels")]
    assert sources[0][:2] == ["conv_op.cc", "conv_op.cc"]
    assert sources[1][:2] == ["conv_compute.cc", "conv_compute.cc"]
    assert f"stored into: {out}/.tailored_ops_list" in capsys.readouterr().out


def test_a_second_run_finds_the_folder_of_the_lists_of_the_first(
    onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out, lists = f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 't'}", "--record_tailoring_info"
    assert [run(model, out, lists), run(model, out, lists), run(model, out)] == [0, 0, 0]
    (tmp_path / "t" / ".tailored_ops_list").unlink()
    assert run(model, out) == 2
    assert f"{out}: it names a directory" in capsys.readouterr().err


def test_nothing_is_written_where_the_lists_for_tailoring_have_no_place(
    onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t").touch()
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 't'}", "--record_tailoring_info") == 2
    assert "it is a file" in capsys.readouterr().err
    assert not (tmp_path / "t.nb").exists()


def test_too_little_memory_is_no_defect(
    onnx_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("converter_lite.formats.paddle.format.build", full)
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'out'}") == 1
    assert capsys.readouterr().err == "Error: out of memory\n"


def test_tables_list_operators_and_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--print_all_ops=true") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:7] == ["OP_name", "kARM", "kOpenCL", "kMetal", "kXPU", "kHost", "kX86"]
    conv = next(line for line in lines if line.split()[0] == "conv2d")
    assert conv.startswith("conv2d".rjust(47) + "     Y")
    assert run("--print_supported_ops=true", "--valid_targets=x86") == 0
    assert capsys.readouterr().out.startswith("Supported OPs on ' kX86': \n")
    assert run("--print_all_ops_in_md_format=true") == 0
    assert capsys.readouterr().out.startswith("The number of supported operators is : 2")
    assert run("--display_kernels=true") == 0
    assert " - conv2d\n" in capsys.readouterr().out


def test_operators_of_a_model_are_listed_and_judged(
    paddle_folder: Path, onnx_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"--model_dir={paddle_folder}", "--print_model_ops=true") == 0
    shown = capsys.readouterr().out
    assert "OPs in the input model include:" in shown
    assert shown.endswith("Paddle-Lite supports this model!\n")
    assert run(f"--model_file={onnx_file}", "--print_model_ops=true", "--valid_targets=x86") == 0
    assert "depthwise_conv2d" in capsys.readouterr().out


def test_operators_of_a_program_are_listed_before_a_target_is_refused(
    paddle_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"--model_dir={paddle_folder}", "--print_model_ops=true", "--valid_targets=opencl") == 2
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].split() == ["OP_name", "kARM", "kHost", "kOpenCL"]
    assert "supports this model" not in shown.out
    assert shown.err.startswith("Error: --valid_targets: files for opencl need graph passes")


def test_operators_of_a_model_come_before_a_drawing(
    paddle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The original's order."""
    drawing = ("--optimized_nb_model_path=m.nb", f"--visualization_file_output_path={tmp_path / 'drawing'}")
    assert run(f"--model_dir={paddle_folder}", "--print_model_ops=true", *drawing) == 0
    assert capsys.readouterr().out.endswith("Paddle-Lite supports this model!\n")
    assert not (tmp_path / "drawing").exists()


def test_help_and_version_need_nothing_heavy() -> None:
    code = (
        "import sys, converter_lite.cli.opt as o\n"
        "try: o.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(m for m in ('numpy', 'onnx', 'onnx_ir', 'onnxruntime') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--quant_type" in done.stdout


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert capsys.readouterr().out.startswith("paddlelite opt version:")
