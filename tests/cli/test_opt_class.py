"""``Opt`` gives what the command ``opt`` gives."""

from __future__ import annotations

from pathlib import Path

import pytest

import converter_lite
from converter_lite.cli.opt import cli
from converter_lite.errors import ConverterError, UsageError
from tests.cli.workshop import Workshop, command


def test_it_writes_the_file_of_the_command(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    opt = converter_lite.Opt()
    opt.set_model_file("model.onnx")
    opt.set_valid_places("x86,arm")
    opt.set_quant_model(True)
    opt.set_quant_type("QUANT_INT8")
    opt.set_optimize_out("class")
    opt.run()
    flags = ("--model_file=model.onnx", "--valid_targets=x86,arm", "--quant_model=true", "--quant_type=QUANT_INT8")
    assert command(*flags, "--optimize_out=flags", program=cli).status == 0
    assert Path("class.nb").read_bytes() == Path("flags.nb").read_bytes()
    assert "class.nb" in capsys.readouterr().out


def test_everything_in_one_call(workshop: Workshop) -> None:
    converter_lite.Opt().run_optimize("", "model.onnx", "", "naive_buffer", "arm", "one")
    assert Path("one.nb").is_file()


def test_what_it_prints(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    opt = converter_lite.Opt()
    opt.set_model_file("model.onnx")
    opt.check_if_model_supported(True)
    opt.print_supported_ops()
    opt.print_all_ops()
    opt.print_all_ops_in_md_dormat()
    opt.display_kernels_info()
    opt.help()
    opt.executablebin_help()
    out = capsys.readouterr().out
    assert "Paddle-Lite supports this model!" in out
    assert out.count("--valid_targets") == 2
    assert converter_lite.__version__ in opt.version()


def test_mistakes_are_errors_and_end_no_process(workshop: Workshop) -> None:
    with pytest.raises(UsageError, match="there is no model"):
        converter_lite.Opt().run()
    opt = converter_lite.Opt()
    opt.set_passes_internal([])
    with pytest.raises(UsageError, match="do not exist here"):
        opt.set_passes_internal(["lite_conv_bn_fuse_pass"])
    opt.set_model_file("absent.onnx")
    opt.set_optimize_out("out")
    with pytest.raises(ConverterError, match="absent"):
        opt.run()
    opt.set_model_file("model.onnx")
    opt.set_valid_places("opencl")
    with pytest.raises(UsageError, match="graph passes"):
        opt.run()
    for wrong, right in (("arn", "arm"), ("npu", "huawei_kirin_npu")):
        opt.set_valid_places(wrong)
        with pytest.raises(UsageError, match=f"did you mean {right}"):
            opt.run()


def test_switches_reach_their_flags(workshop: Workshop) -> None:
    opt = converter_lite.Opt()
    opt.set_model_file("model.onnx")
    opt.set_optimize_out("half")
    opt.enable_fp16()
    opt.set_sparse_model(True)
    opt.set_sparse_threshold(0.5)
    opt.record_model_info(True)
    opt.run()
    assert Path("half").is_dir()
    assert opt.visualize_optimized_nb_model("half.nb", "drawn") == ["Block_0"]
    assert list(Path("drawn").iterdir())
    folder = converter_lite.Opt()
    folder.set_model_dir("nowhere")
    folder.set_param_file("p")
    folder.set_model_type("naive_buffer")
    folder.set_optimize_out("o")
    with pytest.raises(ConverterError):
        folder.run()
    models = converter_lite.Opt()
    models.set_modelset_dir("nowhere")
    with pytest.raises(ConverterError):
        models.run()
