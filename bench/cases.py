"""The conversions that are measured: a table, by topic.

Cases of one group run in turns (A B A B ...), so that what else the machine does falls on all of them alike. A case that
a tool refuses stays in the table: the results then say with which words it was refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Ini = Mapping[str, Mapping[str, str]]
"""Section -> key -> value of a configuration file."""

OURS = "converter_lite"
OPT = "opt"
"""Our ``opt``; behind a colon the Paddle model that it reads, an ONNX model where there is none."""

CALIBRATION_SAMPLES = 100


@dataclass(frozen=True, slots=True)
class Task:
    """A model with its data.

    Attributes:
        model: File name below ``data/models`` of the shared folder.
        data: Folder of the calibration samples below ``data``.
        preprocessing: ``[data_preprocess_param]`` without path and size.
        inputs: Names of the model's inputs; with more than one, ``data`` holds one folder for each.
        shapes: Its fixed shapes as ``--inputShape`` wants them, where it leaves them open.
    """

    model: str
    data: str
    preprocessing: Mapping[str, str]
    inputs: tuple[str, ...] = ("input",)
    shapes: str = ""


_RGB = {"input_type": "IMAGE", "image_to_format": "RGB"}

TASKS: Mapping[str, Task] = {
    "mobilenet": Task(
        "mobilenet_v1_0.75_224.onnx",
        "imagenet_calib",
        {
            **_RGB,
            "normalize_mean": "[127.5, 127.5, 127.5]",
            "normalize_std": "[127.5, 127.5, 127.5]",
            "resize_width": "256",
            "resize_height": "256",
            "resize_method": "LINEAR",
            "center_crop_width": "224",
            "center_crop_height": "224",
        },
        shapes="input:1,3,224,224",
    ),
    "resnet8": Task("resnet8_cifar10.onnx", "cifar10_calib", _RGB, ("input_1",)),
    "ultraface": Task(
        "ultraface_rfb_320.onnx",
        "imagenet_calib",
        {
            **_RGB,
            "normalize_mean": "[127, 127, 127]",
            "normalize_std": "[128, 128, 128]",
            "resize_width": "320",
            "resize_height": "240",
            "resize_method": "LINEAR",
        },
    ),
    "fastestdet": Task(
        "zoo/fastestdet.onnx",
        "imagenet_calib",
        {
            **_RGB,
            "normalize_mean": "[0, 0, 0]",
            "normalize_std": "[255, 255, 255]",
            "resize_width": "352",
            "resize_height": "352",
            "resize_method": "LINEAR",
        },
        ("input.1",),
    ),
    "minilm": Task(
        "minilm_l6_fp16_weights.onnx",
        "minilm_calib",
        {"input_type": "BIN"},
        ("input_ids", "attention_mask", "token_type_ids"),
        "input_ids:1,128;attention_mask:1,128;token_type_ids:1,128",
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One command that is measured.

    Attributes:
        name: Unique; also the stem of the file that it writes.
        title: What the tables call it.
        program: ``OURS`` or a key of :data:`bench.programs.PROGRAMS`.
        task: Key of :data:`TASKS`; empty for a command that converts nothing.
        group: Cases of one group are measured in turns; empty: on its own.
        options: Arguments that are added to the command.
        ini: Configuration of a conversion of ours, without the data section.
        samples: Calibration samples; 0 = none are given.
        repeats: Turns at most.
        evaluated: Whether the accuracy of the file is measured; not where another case writes the same file.
        save_type: ``--saveType`` of a conversion of ours.
    """

    name: str
    title: str
    program: str
    task: str = ""
    group: str = ""
    options: tuple[str, ...] = ()
    ini: Ini = field(default_factory=dict)
    samples: int = CALIBRATION_SAMPLES
    repeats: int = 3
    evaluated: bool = True
    save_type: str = "ONNX"

    @property
    def is_ours(self) -> bool:
        """Whether it measures this project."""
        return self.program == OURS or self.program.partition(":")[0] == OPT

    @property
    def is_for_x86(self) -> bool:
        """Whether its file runs on processors as this one; others are judged in exact arithmetic alone."""
        return self.save_type == "ONNX" and "target_device" not in self.ini.get("full_quant_param", {})


def full(method: str = "MAX_MIN", **keys: str) -> Ini:
    """FULL_QUANT with an activation method; ``keys`` go into ``[full_quant_param]``."""
    return {
        "common_quant_param": {"quant_type": "FULL_QUANT", "bit_num": "8"},
        "full_quant_param": {"activation_quant_method": method, "bias_correction": "true", **keys},
    }


def weight(bits: int) -> Ini:
    """WEIGHT_QUANT of every convolution and matrix product."""
    every = {"min_quant_weight_size": "0", "min_quant_weight_channel": "0"}
    return {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": str(bits), **every}}


def dynamic(strategy: str = "ALWC") -> Ini:
    """DYNAMIC_QUANT."""
    return {
        "common_quant_param": {"quant_type": "DYNAMIC_QUANT", "bit_num": "8"},
        "dynamic_quant_param": {"quant_strategy": strategy},
    }


BEST_MOBILENET = full("MAX_MIN", per_channel="true")
"""The settings that the documentation recommends for the most accurate full quantization."""

_PLAIN = full("MAX_MIN", per_channel="true", bias_correction="false")

_AUTO_TUNE = {**weight(0), "mixed_bit_weight_quant_param": {"auto_tune": "true"}}
_TARGET_ERROR = {**full(), "common_quant_param": {**full()["common_quant_param"], "target_error": "0.06"}}

_MOBILENET_SPEED = (
    Case("mb_plain", "FULL MAX_MIN, no bias correction", OURS, "mobilenet", "min-max", ini=_PLAIN),
    Case("mb_ort", "onnxruntime MinMax, per channel", "ort_static", "mobilenet", "min-max"),
    Case("mb_best", "FULL MAX_MIN, bias correction", OURS, "mobilenet", "methods", ini=BEST_MOBILENET),
    Case("mb_kl", "FULL KL", OURS, "mobilenet", "methods", ini=full("KL")),
    Case("mb_outlier", "FULL REMOVAL_OUTLIER", OURS, "mobilenet", "methods", ini=full("REMOVAL_OUTLIER")),
    Case(
        "mb_ort_entropy",
        "onnxruntime Entropy, per channel",
        "ort_static",
        "mobilenet",
        "methods",
        ("--method", "Entropy"),
    ),
    Case(
        "mb_nncf_full",
        "NNCF, full bias correction",
        "nncf",
        "mobilenet",
        "methods",
        ("--full-bias-correction",),
    ),
)

_MOBILENET_FULL = (
    Case("mb_percentile", "FULL PERCENTILE", OURS, "mobilenet", ini=full("PERCENTILE"), repeats=1),
    Case("mb_mse", "FULL MSE", OURS, "mobilenet", ini=full("MSE"), repeats=1),
    Case("mb_layer", "FULL per tensor", OURS, "mobilenet", ini=full(per_channel="false"), repeats=1),
    Case("mb_dsp", "FULL, DSP", OURS, "mobilenet", ini=full(target_device="DSP"), repeats=1),
    Case(
        "mb_ort_uint8",
        "onnxruntime MinMax, per channel, uint8 activations",
        "ort_static",
        "mobilenet",
        options=("--uint8-activations",),
        repeats=1,
    ),
    Case(
        "mb_ort_layer",
        "onnxruntime MinMax, per tensor",
        "ort_static",
        "mobilenet",
        options=("--per-tensor",),
        repeats=1,
    ),
    Case("mb_nncf", "NNCF, fast bias correction", "nncf", "mobilenet", repeats=1),
    Case(
        "mb_nncf_plain",
        "NNCF, full bias correction, the file as it is",
        "nncf",
        "mobilenet",
        options=("--full-bias-correction", "--plain"),
        repeats=1,
    ),
)

_MOBILENET_WEIGHT = (
    Case("mb_w8_free", "WEIGHT 8 bits, no data", OURS, "mobilenet", "weights", ini=weight(8), samples=0),
    *(Case(f"mb_w{b}", f"WEIGHT {b} bits, data", OURS, "mobilenet", ini=weight(b), repeats=1) for b in (8, 6, 4)),
    *(
        Case(f"mb_w{b}_free", f"WEIGHT {b} bits, no data", OURS, "mobilenet", ini=weight(b), samples=0, repeats=1)
        for b in (6, 4)
    ),
    Case("mb_mixed", "WEIGHT mixed bits, data", OURS, "mobilenet", ini=weight(0), repeats=1),
    Case("mb_tuned", "WEIGHT mixed bits, auto_tune", OURS, "mobilenet", ini=_AUTO_TUNE, repeats=1),
)

_SMALL_MODELS = (
    Case("r8_full", "FULL MAX_MIN, bias correction", OURS, "resnet8", ini=full(), repeats=1),
    Case("r8_ort", "onnxruntime MinMax, per channel", "ort_static", "resnet8", repeats=1),
    Case(
        "r8_ort_uint8",
        "onnxruntime MinMax, per channel, uint8 activations",
        "ort_static",
        "resnet8",
        options=("--uint8-activations",),
        repeats=1,
    ),
    Case("uf_full", "FULL MAX_MIN, bias correction", OURS, "ultraface", ini=full(), repeats=1),
    Case("uf_target", "FULL MAX_MIN, target_error=0.06", OURS, "ultraface", ini=_TARGET_ERROR, repeats=1),
    Case("uf_ort", "onnxruntime MinMax, per channel", "ort_static", "ultraface", repeats=1),
    Case(
        "uf_ort_uint8",
        "onnxruntime MinMax, per channel, uint8 activations",
        "ort_static",
        "ultraface",
        options=("--uint8-activations",),
        repeats=1,
    ),
    Case("fd_full", "FULL MAX_MIN, bias correction", OURS, "fastestdet", ini=full(), repeats=1),
    Case("fd_ort", "onnxruntime MinMax, per channel", "ort_static", "fastestdet", repeats=1),
    Case(
        "fd_ort_uint8",
        "onnxruntime MinMax, per channel, uint8 activations",
        "ort_static",
        "fastestdet",
        options=("--uint8-activations",),
        repeats=1,
    ),
)

_MINILM = (
    Case("ml_alwc", "DYNAMIC ALWC", OURS, "minilm", ini=dynamic(), samples=64, repeats=1),
    Case("ml_alwc_free", "DYNAMIC ALWC, no data", OURS, "minilm", ini=dynamic(), samples=0, repeats=1),
    Case("ml_acwl", "DYNAMIC ACWL", OURS, "minilm", ini=dynamic("ACWL"), samples=64, repeats=1),
    Case(
        "ml_alwc_fixed",
        "DYNAMIC ALWC, fixed shapes",
        OURS,
        "minilm",
        options=(f"--inputShape={TASKS['minilm'].shapes}",),
        ini=dynamic(),
        samples=64,
        repeats=1,
    ),
    Case("ml_full", "FULL, BIN calibration", OURS, "minilm", ini=full(), samples=64, repeats=1),
    Case("ml_ort", "onnxruntime dynamic, after quant_pre_process", "ort_dynamic", "minilm", repeats=1),
    Case(
        "ml_ort_plain",
        "onnxruntime dynamic, the file as it is",
        "ort_dynamic",
        "minilm",
        options=("--plain",),
        repeats=1,
    ),
    Case(
        "ml_ort_folded",
        "onnxruntime dynamic, constants folded by the runtime",
        "ort_dynamic",
        "minilm",
        options=("--folded",),
        repeats=1,
    ),
    Case(
        "ml_ort_folded_channel",
        "onnxruntime dynamic, constants folded, per channel",
        "ort_dynamic",
        "minilm",
        options=("--folded", "--per-channel"),
        repeats=1,
    ),
)

MEMORY_METHODS: Mapping[str, Ini] = {
    "MAX_MIN_PLAIN": _PLAIN,
    **{method: full(method) for method in ("MAX_MIN", "KL", "REMOVAL_OUTLIER", "PERCENTILE", "MSE")},
}
"""Name -> configuration whose peak memory is compared at 50 and 1000 samples."""

_MEMORY = tuple(
    Case(
        f"memory_{name}_{samples}",
        f"FULL {name}, {samples} samples",
        OURS,
        "mobilenet",
        f"memory_{name}",
        ini=ini,
        samples=samples,
        repeats=2,
        evaluated=False,
    )
    for name, ini in MEMORY_METHODS.items()
    for samples in (50, 1000)
)


def _ms(name: str, title: str, task: str, ini: Ini, *, group: str = "", samples: int = 0, repeats: int = 1) -> Case:
    """A ``.ms`` file of ours."""
    return Case(
        name, f".ms, {title}", OURS, task, group, ini=ini, samples=samples, repeats=repeats, save_type="MINDIR_LITE"
    )


def _released(
    name: str, title: str, task: str, ini: Ini, *, group: str = "", samples: int = 0, repeats: int = 1
) -> Case:
    """The same by the released converter, with its own library in front: as installed, it refuses activations."""
    return Case(
        name,
        f"MindSpore Lite 2.0.0, {title}",
        "mindspore_lite_alone" if samples else "mindspore_lite",
        task,
        group,
        ini=ini,
        samples=samples,
        repeats=repeats,
        evaluated=False,
    )


_MINDSPORE_LITE = (
    _ms("mb_ms_w8", "WEIGHT 8 bits", "mobilenet", weight(8), group="ms-weights", repeats=5),
    _released("ms_w8", "WEIGHT 8 bits", "mobilenet", weight(8), group="ms-weights", repeats=5),
    _ms("mb_ms_w4", "WEIGHT 4 bits", "mobilenet", weight(4)),
    _released("ms_w4", "WEIGHT 4 bits", "mobilenet", weight(4)),
    _ms("uf_ms_w8", "WEIGHT 8 bits", "ultraface", weight(8)),
    _released("ms_uf_w8", "WEIGHT 8 bits", "ultraface", weight(8)),
    _ms("uf_ms_w4", "WEIGHT 4 bits", "ultraface", weight(4)),
    _released("ms_uf_w4", "WEIGHT 4 bits", "ultraface", weight(4)),
    _ms("mb_ms_w8_data", "WEIGHT 8 bits, data", "mobilenet", weight(8), samples=CALIBRATION_SAMPLES),
    _ms("mb_ms_mixed", "WEIGHT mixed bits, data", "mobilenet", weight(0), samples=CALIBRATION_SAMPLES),
    _ms("mb_ms_full", "FULL MAX_MIN, bias correction", "mobilenet", full(), group="ms-full", samples=100),
    _released("ms_full", "FULL MAX_MIN, bias correction", "mobilenet", full(), group="ms-full", samples=100),
    _ms("r8_ms_full", "FULL MAX_MIN, bias correction", "resnet8", full(), samples=100),
    _ms("uf_ms_full", "FULL MAX_MIN, bias correction", "ultraface", full(), samples=100),
    _ms("uf_ms_target", "FULL MAX_MIN, target_error=0.06", "ultraface", _TARGET_ERROR, samples=100),
    _ms("ml_ms_alwc", "DYNAMIC ALWC", "minilm", dynamic(), samples=64),
    Case(
        "ms_full_plain",
        "MindSpore Lite 2.0.0 as installed, FULL MAX_MIN",
        "mindspore_lite",
        "mobilenet",
        ini=full(),
        repeats=1,
        evaluated=False,
    ),
)

_QUANT_INT8 = ("--quant_model=true", "--quant_type=QUANT_INT8")
_QUANT_INT16 = ("--quant_model=true", "--quant_type=QUANT_INT16")


def _nb(
    name: str, title: str, program: str, options: tuple[str, ...] = (), *, group: str = "", repeats: int = 1
) -> Case:
    """A ``.nb`` file for ARM of a MobileNet, by our ``opt`` or the released one."""
    return Case(name, title, program, "mobilenet", group, options, samples=0, repeats=repeats, save_type="NAIVE_BUFFER")


_PADDLE_LITE = (
    _nb("nb_w8", "opt, QUANT_INT8", "opt:fp32", _QUANT_INT8, group="nb-weights", repeats=7),
    _nb("pd_w8", "Paddle-Lite opt, QUANT_INT8", "paddle_lite:fp32", _QUANT_INT8, group="nb-weights", repeats=7),
    _nb("nb_w16", "opt, QUANT_INT16", "opt:fp32", _QUANT_INT16),
    _nb("pd_w16", "Paddle-Lite opt, QUANT_INT16", "paddle_lite:fp32", _QUANT_INT16),
    _nb("nb_float", "opt, float", "opt:fp32"),
    _nb("pd_float", "Paddle-Lite opt, float", "paddle_lite:fp32"),
    _nb("nb_ptq", "opt, PaddleSlim's full int8", "opt:ptq"),
    _nb("pd_ptq", "Paddle-Lite opt, PaddleSlim's full int8", "paddle_lite:ptq"),
    Case("nb_full", "opt, FULL MAX_MIN", OPT, "mobilenet", ini=full(), repeats=1, save_type="NAIVE_BUFFER"),
    Case("r8_nb_full", ".nb, FULL MAX_MIN", OPT, "resnet8", ini=full(), repeats=1, save_type="NAIVE_BUFFER"),
    Case("uf_nb_full", ".nb, FULL MAX_MIN", OPT, "ultraface", ini=full(), repeats=1, save_type="NAIVE_BUFFER"),
    Case(
        "ml_nb_w8", ".nb, WEIGHT 8 bits", OPT, "minilm", ini=weight(8), samples=0, repeats=1, save_type="NAIVE_BUFFER"
    ),
)


_OTHER_KINDS = tuple(
    Case(f"{short}_{kind}", title, OURS, task, ini=ini, samples=0, repeats=1)
    for short, task, kinds in (
        ("mb", "mobilenet", ("dynamic",)),
        ("r8", "resnet8", ("dynamic", "w8_free", "w4_free")),
        ("uf", "ultraface", ("w8_free", "w4_free")),
        ("ml", "minilm", ("w8_free", "w4_free")),
    )
    for kind, title, ini in (
        ("dynamic", "DYNAMIC ALWC, no data", dynamic()),
        ("w8_free", "WEIGHT 8 bits, no data", weight(8)),
        ("w4_free", "WEIGHT 4 bits, no data", weight(4)),
    )
    if kind in kinds
)
"""So that each model has each kind of file. Dynamic quantization finds nothing in ultraface."""

IN_OPENVINO = (
    *("mb_best", "mb_dynamic", "mb_w8", "mb_w4"),
    *("r8_full", "r8_dynamic", "r8_w8_free", "r8_w4_free"),
    *("uf_full", "uf_w8_free", "uf_w4_free", "fd_full"),
    *("ml_full", "ml_alwc_free", "ml_alwc", "ml_alwc_fixed", "ml_w8_free", "ml_w4_free"),
)
"""Cases whose files are run in OpenVINO, too."""

CASES: tuple[Case, ...] = (
    Case("help", "converter_lite --help", OURS, group="help", options=("--help",), repeats=5),
    *_MOBILENET_SPEED,
    *_MOBILENET_FULL,
    *_MOBILENET_WEIGHT,
    *_SMALL_MODELS,
    *_MINILM,
    *_OTHER_KINDS,
    *_MEMORY,
    *_MINDSPORE_LITE,
    *_PADDLE_LITE,
)
