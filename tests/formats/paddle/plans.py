"""Plans and conversions of ``.nb`` files for tests, by the quantizer and the driver that serve all formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.calibration.context import CalibrationContext
from converter_lite.cli.opt_request import convert, output_file
from converter_lite.config import config_from_mapping
from converter_lite.formats.paddle.policy import PaddlePolicy, PaddleStorage
from converter_lite.kernels.params import params_from_range
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.pipeline.result import ConvertResult
from converter_lite.quantization.full import quantize_full
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.settings import FullSettings, WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from tests.support import Samples, random_feed


def plan_weights(model: ir.Model, *, target: str, bits: int, corrected: bool = False) -> QuantizedModel:
    """Integer weights, rounded to nearest unless ``corrected``."""
    settings = WeightSettings(bits, bias_correction=corrected, storage=PaddleStorage(policy=PaddlePolicy(target)))
    return quantize_weights(model.clone(), settings, target=target, context=RunContext())


def plan_full(
    model: ir.Model, feed: Mapping[str, NDArray[Any]] | None = None, *, target: str, bound: float | None = None
) -> QuantizedModel:
    """Full int8 with the extremes of one sample, or with one range for all activations; nothing is corrected."""
    samples = Samples([dict(feed) if feed is not None else random_feed(model)])
    settings = FullSettings(bias_correction=False, equalization=False)
    quantized = quantize_full(
        model.clone(), PaddlePolicy(target), settings, samples=samples, context=CalibrationContext()
    )
    if bound is not None:
        known = quantized.plan.activations
        quantized.plan.activations = {n: params_from_range(-bound, bound, p.spec) for n, p in known.items()}
    return quantized


def convert_to_nb(
    model: Path,
    output: Path,
    *,
    target: str = "arm",
    weight_bits: int | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    config_file: Path | None = None,
    half: bool = False,
    sparse: float | None = None,
    protobuf: bool = False,
) -> ConvertResult:
    """A file as ``opt`` makes it."""
    weights = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": str(weight_bits)}}
    return convert(
        ConvertRequest(
            model_file=model,
            output_file=output_file(output, protobuf=protobuf),
            fmk="ONNX" if model.suffix == ".onnx" else "PADDLE",
            config_file=config_file,
            config=None if weight_bits is None else config_from_mapping(weights),
            quantize_if_possible=weight_bits is not None,
            input_shape={name: tuple(shape) for name, shape in (input_shapes or {}).items()},
            save_type=("NAIVE_BUFFER",),
            nb_target=target,
            nb_fp16=half,
            nb_sparse_threshold=sparse,
            nb_protobuf=protobuf,
        )
    )
