"""No key and no flag without an effect or a word: each with every output format and every quantization type.

A value that ought to matter changes the written bytes, the plan, the proof or a file beside them; or the conversion is refused;
or a line of the log names the key or the flag.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from PIL import Image

from converter_lite.config import config_from_mapping
from converter_lite.config.names import QuantType
from converter_lite.config.schema import SECTIONS
from converter_lite.errors import ConverterError
from converter_lite.formats import registry
from converter_lite.formats.registry import FORMATS
from converter_lite.log import DETAILED, Log
from converter_lite.pipeline.convert import run
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.quantization.qdq.attention import knows_attention
from tests.support import SCORES, build, normal

pytestmark = pytest.mark.once

Sections = dict[str, dict[str, str]]

GRAPH = f"""g (float[1,3,8,8] x) => (float[1,8,16] y, float[1,8,16] z, float[1,1,8,64] states) {{
    a0 = Conv<pads=[1,1,1,1]>(x, w1, b1)
    a = BatchNormalization(a0, gamma, b2, b1, gamma)
    b = Relu(a)
    c = Conv<pads=[1,1,1,1], group=24>(b, w2, b2)
    d = Relu(c)
    d0 = Conv<pads=[1,1,1,1]>(d, w4, b4)
    d1 = Relu(d0)
    e = Conv(d1, w3, b3)
    rows = Reshape(e, shape)
    q0 = MatMul(rows, wq) q1 = Add(bq, q0) q2 = Reshape(q1, heads) q = Transpose<perm=[0,2,1,3]>(q2)
    k0 = MatMul(rows, wk) k1 = Add(k0, bk) k2 = Reshape(k1, heads) k = Transpose<perm=[0,2,3,1]>(k2)
    v0 = MatMul(rows, wv) v1 = Add(v0, bv) v2 = Reshape(v1, heads) v = Transpose<perm=[0,2,1,3]>(v2)
    {SCORES}
    m0 = MatMul(p, v) m1 = Transpose<perm=[0,2,1,3]>(m0) m = Reshape(m1, joined)
    y = MatMul(m, wo)
    large = Mul(rows, scales)
    z = MatMul(large, wz)
    states = LSTM<hidden_size=64>(rows, wl, rl)
}}"""
"""Convolutions to equalize, one that pays in integers, a large channel to smooth, attention, LSTM, weights of all sizes."""

TYPES: tuple[QuantType | None, ...] = (None, *QuantType)


def network() -> ir.Model:
    scales = np.ones(64, np.float32)
    scales[3] = 80
    spread = np.geomspace(0.02, 5, 24).astype(np.float32)
    return build(
        GRAPH,
        opset=14,
        w1=normal(24, 3, 3, 3) * spread[:, None, None, None] / 5,
        b1=normal(24) / 5,
        gamma=np.full(24, 1.5, np.float32),
        w2=normal(24, 1, 3, 3, seed=1) / 5,
        b2=normal(24, seed=2) / 5,
        w4=normal(256, 24, 3, 3, seed=15) / 15,
        b4=normal(256, seed=16) / 5,
        w3=normal(8, 256, 1, 1, seed=3) / 15,
        b3=normal(8, seed=4) / 5,
        shape=np.array([1, 8, 64]),
        scales=scales,
        heads=np.array([0, 0, 2, 8]),
        joined=np.array([0, 0, 16]),
        **{f"w{name}": normal(64, 16, seed=seed) / 16 for seed, name in enumerate("qkvz", 5)},
        **{f"b{name}": normal(16, seed=seed) / 8 for seed, name in enumerate("qkv", 9)},
        wo=normal(16, 16, seed=12),
        wl=normal(1, 256, 64, seed=13) / 8,
        rl=normal(1, 256, 64, seed=14) / 8,
    )


@dataclass(frozen=True)
class Case:
    """A value that ought to matter, and what it stands beside.

    Attributes:
        value: Text of the key.
        beside: More keys of the same file, ``section.key`` -> text.
        types: The quantization types that it is tried with; others are refused or remarked on by the parser anyway.
    """

    value: str
    beside: Mapping[str, str] | None = None


BITS0 = {"common_quant_param.bit_num": "0"}
BY_ERROR = {**BITS0, "mixed_bit_weight_quant_param.init_scale": "0.3"}
BLOCKS = {"weight_quant_param.block_size": "64"}
GOAL = {"common_quant_param.target_error": "0.000000001"}
CASES: dict[str, Case | tuple[Case, ...]] = {
    "common_quant_param.bit_num": Case("16"),
    "common_quant_param.min_quant_weight_size": Case("700"),
    "common_quant_param.min_quant_weight_channel": Case("24"),
    "common_quant_param.skip_quant_node": Case("MatMul_30"),
    "common_quant_param.target_cosine": Case("0.9999999"),
    "common_quant_param.target_error": Case("0.00001"),
    "common_quant_param.max_float_nodes": Case("1", GOAL),
    "common_quant_param.learn_seconds": Case("5"),
    "common_quant_param.learn_seed": Case("5"),
    "common_quant_param.portable": Case("false"),
    "common_quant_param.debug_info_save_path": Case("{made}/debug"),
    "common_quant_param.enable_encode": Case("false"),
    "common_quant_param.workspace": Case("{folder}"),
    "weight_quant_param.dequant_strategy": Case("ON_THE_FLY"),
    "weight_quant_param.per_channel": Case("false"),
    "weight_quant_param.bias_correction": Case("false"),
    "weight_quant_param.quant_strategy": Case("GPTQ"),
    "weight_quant_param.rounding": Case("ADAPTIVE"),
    "weight_quant_param.block_size": Case("32"),
    "weight_quant_param.symmetric": Case("false", BLOCKS),
    "weight_quant_param.eight_bit_node": Case("MatMul_30", {**BLOCKS, "common_quant_param.bit_num": "4"}),
    "weight_quant_param.accuracy_level": Case("1", BLOCKS),
    "weight_quant_param.update_mindir": Case("false"),
    "weight_quant_param.max_segments": Case("2"),
    "mixed_bit_weight_quant_param.init_scale": Case("0.001", BITS0),
    "mixed_bit_weight_quant_param.auto_tune": Case("true", BY_ERROR),
    "mixed_bit_weight_quant_param.use_cv_data": (
        Case("true", BITS0),
        Case("true", {**BY_ERROR, "mixed_bit_weight_quant_param.auto_tune": "true"}),
    ),
    "full_quant_param.activation_quant_method": Case("MSE"),
    "full_quant_param.bias_correction": Case("false"),
    "full_quant_param.per_channel": Case("false"),
    "full_quant_param.activation_bits": Case("4"),
    "full_quant_param.target_device": tuple(map(Case, ("NVGPU", "DSP", "ASCEND", "ARM", "X86", "KIRIN"))),
    "full_quant_param.equalization": Case("false"),
    "full_quant_param.rounding": Case("ADAPTIVE"),
    "full_quant_param.smooth_alpha": Case("0.3"),
    "full_quant_param.enable_smooth_shift": (Case("true"), Case("false")),
    "data_preprocess_param.calibrate_path": Case("x:{folder}/others"),
    "data_preprocess_param.calibrate_size": Case("2"),
    "data_preprocess_param.input_type": Case("BIN"),
    "data_preprocess_param.image_to_format": Case("RGB"),
    "data_preprocess_param.normalize_mean": Case("[100, 100, 100]"),
    "data_preprocess_param.normalize_std": Case("[60, 60, 60]"),
    "data_preprocess_param.resize_width": Case("10"),
    "data_preprocess_param.resize_height": Case("10"),
    "data_preprocess_param.resize_method": Case("NEAREST"),
    "data_preprocess_param.center_crop_width": Case("8", {"data_preprocess_param.center_crop_height": "8"}),
    "data_preprocess_param.center_crop_height": Case("8", {"data_preprocess_param.center_crop_width": "8"}),
    "dynamic_quant_param.quant_strategy": Case("ACWL"),
    "dynamic_quant_param.smoothing": Case("false"),
    "dynamic_quant_param.rounding": Case("NEAREST"),
    "dynamic_quant_param.attention_operator": Case("false"),
    "dynamic_quant_param.recurrent_operator": Case("false"),
    "ascend_context.provider": Case("ge"),
    "ascend_context.input_shape": Case("x:[1,3,8,8]"),
    "ascend_context.dynamic_dims": Case("[1],[2]", {"ascend_context.input_shape": "x:[-1,3,8,8]"}),
    "transform_quant_param.export_precision_mode": (Case("FLOAT32"), Case("QUANT")),
    "registry.disable_fusion": (Case("on"), Case("off")),
    "registry.fusion_blacklists": (Case("ConvBatchNormFusion"), Case("FFNFusion"), Case("fold_batchnorm")),
}

BOUNDS = {"mixed_bit_weight_quant_param.max_iterations"}
"""At least 40, which no small network needs: an upper bound has no effect where it is not reached."""

ASKS_FOR_NOTHING = {
    *((name, "transform_quant_param.export_precision_mode", "QUANT") for name in registry.FORMATS),
    *((name, "registry.disable_fusion", "off") for name in registry.FORMATS),
    ("NAIVE_BUFFER", "full_quant_param.target_device", "ARM"),
    *((("ONNX", "dynamic_quant_param.attention_operator", "false"),) if not knows_attention() else ()),
}
"""Format and word that says what happens without it."""

FLAGS: dict[str, Any] = {
    "input_shape": {"x": (1, 3, 10, 8)},
    "input_value": {"x": (1.0,)},
    "input_data_format": "NCHW",
    "output_data_format": "NHWC",
    "input_data_type": "UINT8",
    "output_data_type": "FLOAT16",
    "fp16": True,
    "optimize": "none",
    "ms_compat": "wheel",
    "nb_target": "x86",
    "nb_fp16": True,
    "uint8_weights": "on",
    "nb_meta_version": 1,
    "infer": True,
    "min_cosine": 0.9999999999,
    "plan": Path("absent.json"),
    "save_plan": Path("{made}/plan.json"),
    "dry_run": True,
    "json": Path("{made}/result.json"),
    "report": Path("{made}/page.html"),
    "cache": Path("{made}/cache"),
    "executor": "dask:none",
    "preview": Path("{made}/preview"),
    "nb_sparse_threshold": 0.0,
    "nb_protobuf": True,
}


WORDS = {"nb_fp16": ("float16",)}
"""Other words for a flag."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, and two folders of pictures."""
    made = tmp_path_factory.mktemp("crossed")
    ir.save(network(), made / "model.onnx")
    rng = np.random.default_rng(1)
    for name, width in (("pictures", 12), ("others", 9)):
        (made / name).mkdir()
        for index in range(3):
            pixels = rng.integers(0, 256, (width, width, 3), np.uint8)
            Image.fromarray(pixels).save(made / name / f"{index}.png")
    return made


@dataclass(frozen=True)
class Made:
    """What a conversion made and said."""

    content: tuple[Any, ...]
    lines: frozenset[str]
    refused: bool = False


def converted(folder: Path, name: str, sections: Sections, flags: Mapping[str, Any]) -> Made:
    """A conversion to one format."""
    stream = io.StringIO()
    log, made = Log(DETAILED, stream), folder / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    try:
        config = config_from_mapping(sections) if sections else None
        request = ConvertRequest(
            folder / "model.onnx",
            made / "out",
            save_type=(name,),
            config=config,
            **{"min_cosine": 0.0, "threads": 1, **flags},
        )
        result = run(request, log)
    except ConverterError as error:
        return Made((type(error), str(error)), frozenset(), refused=True)
    files = tuple((a.sha256, a.accuracy, a.gate) for a in result.artefacts)
    plans = tuple(str(plan.to_json()) for plan in result.plans.values())
    beside = tuple(sorted(str(path) for path in made.rglob("*")))
    return Made((files, plans, beside), frozenset(stream.getvalue().splitlines()))


def _placed(text: str, folder: Path) -> str:
    return text.replace("{folder}", str(folder)).replace("{made}", str(folder / "made"))


def base(folder: Path, quant_type: QuantType | None) -> Sections:
    data = {
        "calibrate_path": f"x:{folder}/pictures",
        "calibrate_size": "3",
        "input_type": "IMAGE",
        "normalize_mean": "[127.5, 127.5, 127.5]",
        "normalize_std": "[127.5, 127.5, 127.5]",
        "resize_width": "8",
        "resize_height": "8",
        "resize_method": "LINEAR",
    }
    if quant_type is None:
        return {}
    return {"common_quant_param": {"quant_type": quant_type.value}, "data_preprocess_param": data}


def changed(sections: Sections, folder: Path, keys: Mapping[str, str]) -> Sections:
    made = {section: dict(found) for section, found in sections.items()}
    for slot, text in keys.items():
        section, key = slot.split(".")
        made.setdefault(section, {})[key] = _placed(text, folder)
    return made


@pytest.fixture(scope="module")
def plain(folder: Path) -> Callable[..., Made]:
    """A conversion with nothing but what stands beside a key, made once."""

    @cache
    def made(name: str, quant_type: QuantType | None, beside: tuple[tuple[str, str], ...] = ()) -> Made:
        return converted(folder, name, changed(base(folder, quant_type), folder, dict(beside)), {})

    return made


def has_effect_or_word(made: Made, without: Made, *words: str) -> bool:
    if made.refused or made.content != without.content:
        return True
    return any(word.lower() in line.lower() for line in made.lines for word in words)


def parser_speaks(sections: Sections, slot: str) -> bool:
    """Whether reading the configuration is enough: the key is refused, or remarked on."""
    try:
        remarks = config_from_mapping(sections).warnings
    except ConverterError:
        return True
    return any(word in remark for remark in remarks for word in slot.split("."))


def test_every_key_is_crossed() -> None:
    keys = {f"{section.name}.{key.name}" for section in SECTIONS for key in section.keys}
    assert keys - set(CASES) == {"common_quant_param.quant_type", *BOUNDS}
    assert set(FORMATS) == set(registry.FORMATS)


@pytest.mark.parametrize("quant_type", TYPES, ids=lambda kind: "float" if kind is None else kind.value)
@pytest.mark.parametrize("name", FORMATS)
def test_no_key_without_effect_or_word(
    name: str, quant_type: QuantType | None, folder: Path, plain: Callable[..., Made]
) -> None:
    silent = []
    for slot, cases in CASES.items():
        for case in (cases,) if isinstance(cases, Case) else cases:
            beside = tuple((case.beside or {}).items())
            without = plain(name, quant_type, beside)
            if without.refused and beside:
                continue  # what the key needs is refused, with a sentence
            sections = changed(base(folder, quant_type), folder, {**dict(beside), slot: case.value})
            if (name, slot, case.value) in ASKS_FOR_NOTHING or parser_speaks(sections, slot):
                continue
            if not has_effect_or_word(converted(folder, name, sections, {}), without, *slot.split(".")):
                silent.append(f"{slot}={case.value}")
    assert not silent, "; ".join(silent)


@pytest.mark.parametrize("quant_type", TYPES, ids=lambda kind: "float" if kind is None else kind.value)
@pytest.mark.parametrize("name", FORMATS)
def test_no_flag_without_effect_or_word(
    name: str, quant_type: QuantType | None, folder: Path, plain: Callable[..., Made]
) -> None:
    silent = []
    for flag, value in FLAGS.items():
        given = Path(_placed(str(value), folder)) if isinstance(value, Path) else value
        made = converted(folder, name, base(folder, quant_type), {flag: given})
        if not has_effect_or_word(made, plain(name, quant_type), flag, flag.replace("_", ""), *WORDS.get(flag, ())):
            silent.append(flag)
    assert not silent, "; ".join(silent)
