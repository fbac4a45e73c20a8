"""Settings that have no effect are warnings."""

from __future__ import annotations

import pytest

from converter_lite.config import parse_config
from tests.config.texts import DYNAMIC, FULL, WEIGHT


def warnings(text: str) -> tuple[str, ...]:
    return parse_config(text, path="a.cfg").warnings


WARNED = {
    "section of another type": (
        WEIGHT + "[full_quant_param]\nbias_correction=true\n",
        "a.cfg:3 [full_quant_param]: the section has no effect with quant_type=WEIGHT_QUANT",
    ),
    "dynamic section": (
        WEIGHT + "[dynamic_quant_param]\nquant_strategy=ALWC\n",
        "a.cfg:3 [dynamic_quant_param]: the section has no effect with quant_type=WEIGHT_QUANT",
    ),
    "filter with DYNAMIC": (
        DYNAMIC + "min_quant_weight_size=1\n",
        "a.cfg:3 [common_quant_param] min_quant_weight_size: has no effect with quant_type=DYNAMIC_QUANT",
    ),
    "filter with FULL on CPU": (
        FULL + "[common_quant_param]\nmin_quant_weight_channel=1\n",
        "a.cfg:8 [common_quant_param] min_quant_weight_channel: has no effect with target_device=CPU",
    ),
    "mixed section with fixed bits": (
        WEIGHT + "[mixed_bit_weight_quant_param]\ninit_scale=0.1\n",
        "a.cfg:3 [mixed_bit_weight_quant_param]: the section has no effect unless bit_num=0",
    ),
    "iterations without search": (
        WEIGHT + "bit_num=0\n[mixed_bit_weight_quant_param]\nmax_iterations=50\n",
        "a.cfg:5 [mixed_bit_weight_quant_param] max_iterations: has no effect unless bit_num=0 and auto_tune=true",
    ),
    "a scale beside a search": (
        WEIGHT + "bit_num=0\n[mixed_bit_weight_quant_param]\ninit_scale=0.1\nauto_tune=true\n",
        "a.cfg:5 [mixed_bit_weight_quant_param] init_scale: has no effect with auto_tune=true: widths are searched for a cosine",
    ),
    "a limit without a goal": (
        WEIGHT + "max_float_nodes=2\n",
        "a.cfg:3 [common_quant_param] max_float_nodes: has no effect unless target_cosine is set or target_error is set",
    ),
    "a share of what is not moved": (
        FULL + "[full_quant_param]\nequalization=false\nsmooth_alpha=0.5\n",
        "a.cfg:9 [full_quant_param] smooth_alpha: has no effect unless equalization=true",
    ),
    "picture keys with BIN": (
        FULL.replace("IMAGE", "BIN") + "image_to_format=RGB\n",
        "a.cfg:7 [data_preprocess_param] image_to_format: has no effect unless input_type=IMAGE",
    ),
    "ascend_context without ASCEND": (
        FULL + "[ascend_context]\nprovider=ge\n",
        "a.cfg:7 [ascend_context]: the section has no effect with target_device=CPU",
    ),
    "ascend_context without ON_THE_FLY": (
        WEIGHT + "[ascend_context]\nprovider=ge\n",
        "a.cfg:3 [ascend_context]: the section has no effect unless dequant_strategy=ON_THE_FLY",
    ),
    "key of the device runtime": (
        FULL + "[full_quant_param]\ntarget_device=ASCEND\n[ascend_context]\nprecision_mode=enforce_fp16\n",
        "a.cfg:10 [ascend_context] precision_mode: concerns the device runtime: no effect here",
    ),
    "section about something else": (
        WEIGHT + "[model_param]\nname=a=b\nanything\t= at all\n",
        "a.cfg:3 [model_param]: the section is not about quantization: no effect",
    ),
    "plugins": (
        WEIGHT + "[registry]\nplugin_path=folder\n",
        "a.cfg:4 [registry] plugin_path: plugins are libraries for the original's own parsers and operators, which do "
        "not run here: no effect",
    ),
    "streams of a device": (
        FULL + "[full_quant_param]\ntarget_device=ASCEND\n[ascend_context]\nstream_label_file=streams.cfg\n",
        "a.cfg:10 [ascend_context] stream_label_file: says on which stream of the device a node runs, which no file "
        "that is written here can hold: no effect",
    ),
    "key that this program does not need": (
        WEIGHT + "workspace=w\n",
        "a.cfg:3 [common_quant_param] workspace: has no effect here: tensors stay in their files, no temporary "
        "model is written",
    ),
    "empty file": ("", "a.cfg: nothing is quantized: no quant_type is given, the model stays in float"),
}


@pytest.mark.parametrize("case", WARNED)
def test_what_has_no_effect_is_a_warning(case: str) -> None:
    text, expected = WARNED[case]
    assert warnings(text) == (expected,)


QUIET = {
    "data with WEIGHT": FULL.replace("FULL", "WEIGHT"),
    "data with DYNAMIC": FULL.replace("FULL", "DYNAMIC"),
    "filter with ASCEND": FULL
    + "[common_quant_param]\nmin_quant_weight_size=1\n[full_quant_param]\ntarget_device=ASCEND\n",
    "context with ASCEND": FULL + "[full_quant_param]\ntarget_device=ASCEND\n[ascend_context]\nprovider=ge\n",
    "a limit for one of two goals": WEIGHT + "target_error=0.1\nmax_float_nodes=2\n",
    "a search with data": FULL.replace("FULL", "WEIGHT")
    + "[common_quant_param]\nbit_num=0\n[mixed_bit_weight_quant_param]\nmax_iterations=50\n",
    "mixed bits": WEIGHT + "bit_num=0\n[mixed_bit_weight_quant_param]\nauto_tune=true\nmax_iterations=50\n",
}


@pytest.mark.parametrize("case", QUIET)
def test_what_has_an_effect_is_no_warning(case: str) -> None:
    assert warnings(QUIET[case]) == ()


@pytest.mark.parametrize("text", ["", "# only a comment\n", "[ascend_context]\nprovider=ge\n", "[micro_param]\nx=1\n"])
def test_without_a_quantization_section_the_model_stays_in_float_and_that_is_said(text: str) -> None:
    config = parse_config(text, path="a.cfg")
    assert config.common_quant_param.quant_type is None
    assert config.warnings[-1] == "a.cfg: nothing is quantized: no quant_type is given, the model stays in float"
