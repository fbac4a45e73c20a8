"""The figures to reach: a table. Each row compares one figure of ours with a limit, or with a peer of the same run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.cases import CASES, MEMORY_METHODS
from bench.figures import ACCURACY, FLOAT, MASKED, PRECISION, Figures

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure to reach.

    Attributes:
        topic: Table that the row stands in.
        title: First column.
        case: Case of ours.
        metric: See :class:`bench.figures.Figures`.
        limit: What is to be reached.
        peer: Case that is compared with.
        how: ``value``: ours; ``ratio``: ours / peer; ``speedup``: peer / ours; ``lost``: peer - ours.
        at_least: Whether the limit is a lower one.
    """

    topic: str
    title: str
    case: str
    metric: str
    limit: float
    peer: str = ""
    how: Literal["value", "ratio", "speedup", "lost"] = "value"
    at_least: bool = False

    def measured(self, figures: Figures) -> float | None:
        """The figure that is compared with the limit; ``None`` where something was not measured."""
        if self.how == "value":
            return figures.median(self.case, self.metric)
        if self.how == "ratio":
            return figures.ratio(self.metric, self.case, self.peer)
        if self.how == "speedup":
            return figures.ratio(self.metric, self.peer, self.case)
        ours, theirs = figures.median(self.case, self.metric), figures.median(self.peer, self.metric)
        return None if ours is None or theirs is None else theirs - ours

    @property
    def is_of_accuracy(self) -> bool:
        """Whether the figure has an exact one beside it."""
        return self.metric in ACCURACY

    def measured_on(self, figures: Figures) -> str:
        """Kind of the processor, and in which way: native, masked, or exact where the file is for another runtime."""
        if self.metric in (PRECISION, MASKED):
            return figures.masked_on
        is_exact = self.is_of_accuracy and self.case in _FOR_OTHERS
        return "exact" if is_exact else f"native, {figures.processor}"

    def turns(self, figures: Figures) -> list[float]:
        """The compared figure of each turn; empty where turns are not compared."""
        if self.how == "ratio":
            return figures.ratios(self.metric, self.case, self.peer)
        return figures.ratios(self.metric, self.peer, self.case) if self.how == "speedup" else []

    def is_met(self, figures: Figures) -> bool | None:
        """Whether the limit is reached; ``None`` where nothing can be said."""
        value = self.measured(figures)
        if value is None:
            return None
        tolerance = 1e-9 * abs(self.limit)
        return value >= self.limit - tolerance if self.at_least else value <= self.limit + tolerance


def _least_cosine(topic: str, title: str, case: str, limit: float, peer: str = "") -> Goal:
    return Goal(topic, title, case, "cosine", limit, peer, at_least=True)


def _points(topic: str, title: str, case: str, points: float) -> Goal:
    """At most so many percentage points of top-1 below the float model."""
    task = {"mb": "mobilenet", "nb": "mobilenet", "r8": "resnet8"}[case.split("_")[0]]
    return Goal(topic, title, case, "top1", points / 100, f"{task}/{FLOAT}", "lost")


_SPEED = "Time of a conversion"
_MEMORY = "Peak memory"
_LATENCY = "Speed of the result"
_ACCURACY = "Accuracy: full quantization"
_WEIGHTS = "Accuracy and size: weights only"
_MINDSPORE_LITE = "Files for MindSpore Lite (`.ms`)"
_PADDLE_LITE = "Files for Paddle-Lite (`.nb`)"
_TRANSFORMER = "Transformer (MiniLM, 128 tokens)"

_FULL_METHODS = ("mb_plain", "mb_best", "mb_kl", "mb_outlier", "mb_percentile", "mb_mse", "mb_layer", "mb_dsp")
_WEIGHT_METHODS = ("mb_w8_free", "mb_w8", "mb_w6", "mb_w4", "mb_mixed", "mb_tuned")

_TITLES = {case.name: case.title for case in CASES}
_FOR_OTHERS = {case.name for case in CASES if not case.is_for_x86}

_PRECISE = "The same numbers with `session.x64quantprecision=1` as without: largest difference"
_PRECISE_PEERS = {
    "mobilenet": "mb_ort_uint8",
    "resnet8": "r8_ort_uint8",
    "ultraface": "uf_ort_uint8",
    "fastestdet": "fd_ort_uint8",
    "minilm": "ml_ort_folded_channel",
}

GOALS: tuple[Goal, ...] = (
    Goal(_SPEED, "`--help`", "help", "seconds", 0.3),
    Goal(_SPEED, "WEIGHT 8 bits, mobilenet", "mb_w8_free", "seconds", 1.5),
    Goal(_SPEED, "WEIGHT 4 bits, data, mobilenet", "mb_w4", "seconds", 6.0),
    Goal(_SPEED, "WEIGHT mixed bits, data, mobilenet", "mb_mixed", "seconds", 20.0),
    Goal(_SPEED, "MAX_MIN without bias correction against MinMax", "mb_plain", "seconds", 1.0, "mb_ort", "ratio"),
    Goal(_SPEED, "KL against Entropy", "mb_kl", "seconds", 4.0, "mb_ort_entropy", "speedup", at_least=True),
    Goal(_SPEED, "best settings against NNCF full bias correction", "mb_best", "seconds", 0.5, "mb_nncf_full", "ratio"),
    Goal(_SPEED, "KL against MAX_MIN, both ours", "mb_kl", "seconds", 2.0, "mb_best", "ratio"),
    Goal(_SPEED, "REMOVAL_OUTLIER against MAX_MIN, both ours", "mb_outlier", "seconds", 2.0, "mb_best", "ratio"),
    *(Goal(_MEMORY, _TITLES[case], case, "peak", 0.5 * GIB) for case in _FULL_METHODS + _WEIGHT_METHODS),
    *(Goal(_MEMORY, f"{name}, 1000 samples", f"memory_{name}_1000", "peak", 0.5 * GIB) for name in MEMORY_METHODS),
    *(
        Goal(_MEMORY, f"{name}, 1000 : 50 samples", f"memory_{name}_1000", "peak", 1.1, f"memory_{name}_50", "ratio")
        for name in MEMORY_METHODS
    ),
    Goal(_LATENCY, "mobilenet, best settings", "mb_best", "latency", 1.05, "mb_ort", "ratio"),
    Goal(_LATENCY, "mobilenet, peer with uint8 activations", "mb_best", "latency", 1.05, "mb_ort_uint8", "ratio"),
    Goal(_LATENCY, "resnet8", "r8_full", "latency", 1.05, "r8_ort", "ratio"),
    Goal(_LATENCY, "resnet8, peer with uint8 activations", "r8_full", "latency", 1.05, "r8_ort_uint8", "ratio"),
    Goal(_LATENCY, "ultraface", "uf_full", "latency", 1.05, "uf_ort", "ratio"),
    Goal(_LATENCY, "ultraface, peer with uint8 activations", "uf_full", "latency", 1.05, "uf_ort_uint8", "ratio"),
    Goal(_LATENCY, "ultraface, target_error=0.06", "uf_target", "latency", 1.05, "uf_ort", "ratio"),
    Goal(_LATENCY, "mobilenet, best settings, without VNNI", "mb_best", MASKED, 1.05, "mb_ort_uint8", "ratio"),
    Goal(_LATENCY, "ultraface, without VNNI", "uf_full", MASKED, 1.05, "uf_ort_uint8", "ratio"),
    Goal(_LATENCY, "mobilenet, float time : ours", "mb_best", "latency", 2.5, "mobilenet/float", "speedup", True),
    Goal(_LATENCY, "the same without VNNI", "mb_best", MASKED, 1.6, "mobilenet/float", "speedup", True),
    Goal(
        _LATENCY,
        "ultraface without VNNI, float time : ours",
        "uf_full",
        MASKED,
        0.95,
        "ultraface/float",
        "speedup",
        True,
    ),
    _least_cosine(_ACCURACY, "mobilenet, MAX_MIN and bias correction", "mb_best", 0.9982, "mb_ort"),
    _least_cosine(_ACCURACY, "mobilenet, best settings", "mb_best", 0.9982, "mb_nncf_full"),
    _points(_ACCURACY, "mobilenet, best settings, top-1 lost", "mb_best", 0.5),
    _least_cosine(_ACCURACY, "mobilenet, per tensor", "mb_layer", 0.9895, "mb_ort_layer"),
    _points(_ACCURACY, "mobilenet, per tensor, top-1 lost", "mb_layer", 1.5),
    _least_cosine(_ACCURACY, "mobilenet, DSP", "mb_dsp", 0.988, "mb_ort_layer"),
    _points(_ACCURACY, "mobilenet, DSP, top-1 lost", "mb_dsp", 1.5),
    _least_cosine(_ACCURACY, "mobilenet, KL", "mb_kl", 0.995, "mb_ort_entropy"),
    _least_cosine(_ACCURACY, "mobilenet, REMOVAL_OUTLIER", "mb_outlier", 0.995),
    _least_cosine(_ACCURACY, "resnet8", "r8_full", 0.9986, "r8_ort"),
    _points(_ACCURACY, "resnet8, top-1 lost", "r8_full", 0.2),
    Goal(_ACCURACY, "ultraface, largest error", "uf_full", "error", 0.13, "uf_ort"),
    Goal(_ACCURACY, "ultraface, largest error (second goal)", "uf_full", "error", 0.08, "uf_ort"),
    Goal(_ACCURACY, "ultraface, largest error, target_error=0.06", "uf_target", "error", 0.06, "uf_ort"),
    _least_cosine(_ACCURACY, "FastestDet", "fd_full", 0.985, "fd_ort"),
    *(
        Goal(_PRECISE, f"{case.task}, {case.title}", case.name, PRECISION, 0, _PRECISE_PEERS[case.task])
        for case in CASES
        if case.is_ours and case.evaluated and case.task and case.is_for_x86
    ),
    _least_cosine(_WEIGHTS, "8 bits, no data", "mb_w8_free", 0.99),
    _least_cosine(_WEIGHTS, "8 bits, no data (second goal)", "mb_w8_free", 0.993),
    _least_cosine(_WEIGHTS, "8 bits, data", "mb_w8", 0.9985),
    _least_cosine(_WEIGHTS, "6 bits, data", "mb_w6", 0.985),
    _least_cosine(_WEIGHTS, "4 bits, data", "mb_w4", 0.93),
    _points(_WEIGHTS, "4 bits, data, top-1 lost", "mb_w4", 3),
    _least_cosine(_WEIGHTS, "mixed bits", "mb_mixed", 0.99),
    Goal(_WEIGHTS, "mixed bits, bytes against 8 bits", "mb_mixed", "bytes", 0.8, "mb_w8", "ratio"),
    _least_cosine(_WEIGHTS, "mixed bits, auto_tune", "mb_tuned", 0.99),
    Goal(_WEIGHTS, "mixed bits, auto_tune, bytes against 8 bits", "mb_tuned", "bytes", 0.8, "mb_w8", "ratio"),
    _least_cosine(_TRANSFORMER, "DYNAMIC ALWC", "ml_alwc", 0.9977, "ml_ort_folded_channel"),
    _least_cosine(_TRANSFORMER, "DYNAMIC ALWC, no data", "ml_alwc_free", 0.986, "ml_ort_folded_channel"),
    Goal(_TRANSFORMER, "DYNAMIC ALWC, float time : ours", "ml_alwc", "latency", 2.2, "minilm/float", "speedup", True),
    Goal(_TRANSFORMER, "the same (second goal)", "ml_alwc", "latency", 2.5, "minilm/float", "speedup", True),
    Goal(_TRANSFORMER, "the same without VNNI", "ml_alwc", MASKED, 1.8, "minilm/float", "speedup", True),
    _least_cosine(_TRANSFORMER, "FULL, BIN calibration", "ml_full", 0.98),
    Goal(_MINDSPORE_LITE, "WEIGHT 8 bits, mobilenet, time", "mb_ms_w8", "seconds", 1.5, "ms_w8", "ratio"),
    Goal(_MINDSPORE_LITE, "FULL, 100 samples, mobilenet, time", "mb_ms_full", "seconds", 0.15, "ms_full", "ratio"),
    *(
        Goal(_MINDSPORE_LITE, f"WEIGHT {bits} bits, {task}, bytes", f"{ours}_ms_w{bits}", "bytes", 1.02, peer, "ratio")
        for ours, task, bits, peer in (
            ("mb", "mobilenet", 8, "ms_w8"),
            ("mb", "mobilenet", 4, "ms_w4"),
            ("uf", "ultraface", 8, "ms_uf_w8"),
            ("uf", "ultraface", 4, "ms_uf_w4"),
        )
    ),
    Goal(_MINDSPORE_LITE, "WEIGHT 8 bits, ultraface, bytes", "uf_ms_w8", "bytes", 480_000),
    _least_cosine(_MINDSPORE_LITE, "WEIGHT 8 bits, ultraface", "uf_ms_w8", 0.99999),
    Goal(
        _MINDSPORE_LITE, "mixed bits, mobilenet, bytes against 8 bits", "mb_ms_mixed", "bytes", 0.7, "mb_ms_w8", "ratio"
    ),
    _least_cosine(_MINDSPORE_LITE, "mixed bits, mobilenet", "mb_ms_mixed", 0.99),
    _least_cosine(_MINDSPORE_LITE, "FULL, mobilenet", "mb_ms_full", 0.9970),
    _points(_MINDSPORE_LITE, "FULL, resnet8, top-1 lost", "r8_ms_full", 0.2),
    Goal(_MINDSPORE_LITE, "FULL, ultraface, largest error", "uf_ms_full", "error", 0.08),
    Goal(_MINDSPORE_LITE, "FULL, ultraface, largest error, target_error=0.06", "uf_ms_target", "error", 0.08),
    _least_cosine(_MINDSPORE_LITE, "DYNAMIC, MiniLM", "ml_ms_alwc", 0.98),
    Goal(_PADDLE_LITE, "QUANT_INT8, mobilenet, time", "nb_w8", "seconds", 4.0, "pd_w8", "ratio"),
    Goal(_PADDLE_LITE, "QUANT_INT8, mobilenet, bytes against float", "nb_w8", "bytes", 0.27, "nb_float", "ratio"),
    Goal(_PADDLE_LITE, "QUANT_INT16, mobilenet, bytes against float", "nb_w16", "bytes", 0.52, "nb_float", "ratio"),
    _least_cosine(_PADDLE_LITE, "QUANT_INT8, mobilenet", "nb_w8", 0.99, "pd_w8"),
    _least_cosine(_PADDLE_LITE, "QUANT_INT16, mobilenet", "nb_w16", 0.9999, "pd_w16"),
    _points(_PADDLE_LITE, "FULL, mobilenet, top-1 lost", "nb_full", 1),
    _points(_PADDLE_LITE, "PaddleSlim's scales, mobilenet, top-1 lost", "nb_ptq", 3.3),
)
