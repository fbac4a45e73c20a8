"""Configurations shaped like those that the original is tested with: each has its effect, or a sentence its author would call
right."""

from __future__ import annotations

from pathlib import Path

import pytest

from converter_lite.config import QuantizationConfig, load_config
from converter_lite.config.names import QuantType, TargetDevice
from converter_lite.errors import ConfigError

DATA = "[data_preprocess_param]\ncalibrate_path=x:samples\ncalibrate_size=2\ninput_type=BIN\n"
COMMENTED_OUT = "[common_quant_param]\n# kind of quantization\n#quant_type=WEIGHT_QUANT\n#bit_num=8\n\n"
MICRO = "[micro_param]\n# code for a microcontroller\nenable_micro=true\ntarget=x86\nsupport_parallel=false\n"
DEVICE = "the section sets up a device's own compiler or runtime, which reads its own file: no effect here"
NO_CODE = "no C code is generated: models are written as files for the runtimes"
FLOAT = "a.cfg: nothing is quantized: no quant_type is given, the model stays in float"


def read(folder: Path, text: str) -> QuantizationConfig:
    path = folder / "a.cfg"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


SAID = {
    "every key commented out": (COMMENTED_OUT, (FLOAT,)),
    "code generation without quantization": (COMMENTED_OUT + MICRO, (FLOAT, f"a.cfg:6 [micro_param]: {NO_CODE}")),
    "a compiler's options": (
        '[acl_build_options]\ninput_format="ND"\ninput_shape="x:-1,8,8,3"\nge.dynamicDims="1;8"\n',
        (FLOAT, f"a.cfg:1 [acl_build_options]: {DEVICE}"),
    ),
    "a model that is quantized already": (
        "[ascend_context]\nprovider=ge\n",
        (FLOAT, "a.cfg:1 [ascend_context]: the section has no effect without quantization"),
    ),
    "one that keeps its integers": (
        "[weight_quant_param]\ndequant_strategy=ON_THE_FLY\n\n[ascend_context]\nprovider=ge\n",
        (
            FLOAT,
            "a.cfg:1 [weight_quant_param]: the section has no effect without quantization",
            "a.cfg:4 [ascend_context]: the section has no effect without quantization",
        ),
    ),
    "options of a session and of fused kernels": (
        "[ascend_context]\nplugin_custom_ops=All\nprovider=ge\n\n[ge_session_options]\nge.exec.precision_mode=x\n\n"
        "[graph_kernel_param]\nopt_level=2\n\n[gpu_context]\ndevice_id=0\n\n[acl_option_cfg_param]\nPrecision=1\n",
        (
            FLOAT,
            "a.cfg:1 [ascend_context]: the section has no effect without quantization",
            "a.cfg:2 [ascend_context] plugin_custom_ops: concerns the device runtime: no effect here",
            f"a.cfg:5 [ge_session_options]: {DEVICE}",
            f"a.cfg:8 [graph_kernel_param]: {DEVICE}",
            f"a.cfg:11 [gpu_context]: {DEVICE}",
            f"a.cfg:14 [acl_option_cfg_param]: {DEVICE}",
        ),
    ),
    "limits of weights for a graphics processor": (
        "[common_quant_param]\nquant_type=FULL_QUANT\nbit_num=8\nmin_quant_weight_size=0\nmin_quant_weight_channel=16\n"
        + DATA
        + "[full_quant_param]\ntarget_device=NVGPU\n",
        (
            "a.cfg:4 [common_quant_param] min_quant_weight_size: has no effect with target_device=NVGPU",
            "a.cfg:5 [common_quant_param] min_quant_weight_channel: has no effect with target_device=NVGPU",
        ),
    ),
    "a fusion that is left out": (
        "[common_quant_param]\nquant_type=FULL_QUANT\nbit_num=8\n\n" + DATA + "[full_quant_param]\nper_channel=true\n"
        "bias_correction=false\n\n[registry]\nfusion_blacklists=ConvBatchNormFusion\n",
        (),
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_accepted_says_what_has_no_effect(case: str, tmp_path: Path) -> None:
    text, expected = SAID[case]
    warnings = (warning.replace(f"{tmp_path}/", "") for warning in read(tmp_path, text).warnings)
    assert tuple(sorted(warnings)) == tuple(sorted(expected))


def test_a_kirin_phone_is_a_device(tmp_path: Path) -> None:
    text = f"[common_quant_param]\nquant_type=FULL_QUANT\nbit_num=8\n{DATA}[full_quant_param]\ntarget_device=KIRIN\n"
    assert read(tmp_path, text).full_quant_param.target_device is TargetDevice.KIRIN


def test_a_search_on_drawn_pictures_needs_no_data(tmp_path: Path) -> None:
    text = "[common_quant_param]\nquant_type=WEIGHT_QUANT\nbit_num=0\nmin_quant_weight_channel=0\n"
    config = read(
        tmp_path, f"{text}[mixed_bit_weight_quant_param]\nauto_tune=true\nuse_cv_data=true\nmax_iterations=80\n"
    )
    assert config.warnings == ()
    assert config.mixed_bit_weight_quant_param.use_cv_data
    assert config.common_quant_param.quant_type is QuantType.WEIGHT_QUANT


def test_a_path_that_a_script_should_have_filled_in_is_missed(tmp_path: Path) -> None:
    text = f"[common_quant_param]\nquant_type=FULL_QUANT\n{DATA.replace('x:samples', '')}{MICRO}"
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    (sentence,) = caught.value.problems
    assert sentence.endswith("calibrate_path: has no value: give one, such as input:samples/calibration")
