"""Programming interface: ``convert``, the original's ``Converter``, PaddleSlim's post-training functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from converter_lite.errors import UsageError
from converter_lite.log import NORMAL, Log
from converter_lite.pipeline.request import DEFAULT_SAVE_TYPE, NOT_AVAILABLE, ConvertRequest
from converter_lite.pipeline.result import ConvertResult

if TYPE_CHECKING:
    import onnx_ir as ir

    from converter_lite.config.settings import QuantizationConfig
    from converter_lite.learning.aware import QuantAware
    from converter_lite.quantization.plan import QuantPlan

UNAVAILABLE = {
    "train_model": "trainModel",
    "optimize_transformer": "optimizeTransformer",
    "device": "device",
}
"""Attributes of the original's converter whose feature is not available -> the flag for the same feature."""

Samples = Iterable[Any] | Callable[[], Iterable[Any]]
"""Samples from Python: dictionaries by input name, tuples in input order, or arrays; or a function that returns them."""


@overload
def convert(request: ConvertRequest, *, log: Log | None = None) -> ConvertResult: ...


@overload
def convert(request: QuantAware, *, log: Log | None = None) -> tuple[ir.Model, QuantPlan]: ...


@overload
def convert(request: QuantAware, output_file: str | Path, *, log: Log | None = None) -> ConvertResult: ...


def convert(
    request: ConvertRequest | QuantAware, output_file: str | Path | None = None, *, log: Log | None = None
) -> ConvertResult | tuple[ir.Model, QuantPlan]:
    """Convert a model as the request says, or what :func:`quant_aware` made of one. Nothing is written unless it is proven.

    Args:
        request: What to convert, or a trained module.
        output_file: File of a module, without suffix; ``None`` returns its graph, weights with the values of their integers, and
            its plan.
        log: Receives messages.

    Raises:
        ConverterError: What is wrong, where, and what to do (subclasses in :mod:`converter_lite.errors`).
    """
    from converter_lite.pipeline.convert import run

    if isinstance(request, ConvertRequest):
        if output_file is not None:
            raise UsageError("a request names its file itself", where="output_file")
        return run(request, log or Log())
    if request is None or isinstance(request, (str, Path)):  # others may be modules, which need PyTorch to tell
        raise UsageError(
            f"must be a ConvertRequest or a module of quant_aware, not {request!r}",
            where="request",
            hint="convert(ConvertRequest(model_file, output_file))",
        )
    from converter_lite.learning.aware import converted, same_start

    if output_file is None:
        return converted(request)
    if not isinstance(request.origin, ConvertRequest):
        raise UsageError("only modules that quant_aware made can be written", where="convert")
    origin = replace(request.origin, output_file=Path(output_file))
    return run(origin, log or Log(), train=lambda start: same_start(request, start))


def quant_aware(
    model: str | Path | ConvertRequest,
    config: str | Path | Mapping[str, Mapping[str, str]] = "",
    *,
    save_type: str = "ONNX",
    calibration_data: Samples | None = None,
    log: Log | None = None,
) -> QuantAware:
    """A quantized network as a module of PyTorch, for a training loop of your own; :func:`convert` takes it back.

    Args:
        model: An ONNX file, or a request for a model of another framework (with its configuration), to one format.
        config: INI file, or its sections as dictionaries; ``quant_type`` decides which grids are trained.
        save_type: Output format: grids are those of its runtimes.
        calibration_data: Samples from Python instead of ``calibrate_path``.
        log: Receives messages.

    Raises:
        ConverterError: What is wrong, where, and what to do.
    """
    from converter_lite.system.extras import require

    require(("torch",), what="quantization-aware training", extra="learn", where="quant_aware")
    from converter_lite.learning.aware import QuantAware
    from converter_lite.learning.network import check_operators
    from converter_lite.pipeline.convert import quantized_network

    if not isinstance(model, ConvertRequest):
        converter = Converter(calibration_data=calibration_data)
        for section, keys in config.items() if isinstance(config, Mapping) else ():
            converter.set_config_info(section, keys)
        settings = converter._merged_config("" if isinstance(config, Mapping) else config)
        model = ConvertRequest(
            Path(model),
            Path(f"{model}_trained"),
            config=settings,
            save_type=(save_type,),
            calibration_data=calibration_data,
        )
    if len(model.save_type) > 1:
        raise UsageError(
            f"the request names {' and '.join(model.save_type)}; a module is trained for the grids of one format",
            where="save_type",
            hint="name one format, and make a module for each",
        )
    quantized = quantized_network(model, log or Log(), check=check_operators)
    if not quantized.plan.quantized_nodes:
        raise UsageError("nothing is quantized: there is nothing to train", where="config", hint="set quant_type")
    module = QuantAware(quantized)
    module.origin = model
    return module


@dataclass(slots=True)
class Converter:
    """The interface of ``mindspore_lite.Converter``: set attributes, then call :meth:`convert`.

    Attributes:
        input_shape: Input name -> fixed shape.
        input_value: Input name -> numbers: the input becomes a constant, see ``--inputValue``.
        input_format: Layout of BIN calibration files, "NHWC" or "NCHW".
        input_data_type, output_data_type: Element types of the result, see ``--inputDataType``.
        output_format: Layout of four-dimensional outputs, see ``--outputDataFormat``.
        weight_fp16: Store float constants as float16.
        optimize: "none", "general", "gpu_oriented" or "ascend_oriented".
        infer: Run the result once on random data.
        save_type: Output format, or several.
        ms_compat: "device", or "wheel" for ``.ms`` files that the released desktop packages load too.
        nb_target: "arm" or "x86": processors that a ``.nb`` file is for.
        nb_fp16: A ``.nb`` file for ARM computes in float16 where there are kernels for it.
        uint8_weights: ONNX: whether int8 weights with which integer kernels of x86 processors could saturate are stored as
            uint8: ``auto`` (those of integer models of other frameworks), ``on`` or ``off``.
        min_cosine: Quality gate; ``None`` applies the default rule.
        threads: Worker threads; 0 = one per core.
        calibration_data: Samples from Python instead of ``calibrate_path``.
        verbose: Print the summary lines of the command line.
        decrypt_key, decrypt_mode: Hexadecimal key of an encrypted MINDIR or MSLITE model; "AES-GCM" or "AES-CBC".
        enable_encryption, encrypt_key: The ``.ms`` file is encrypted with a key of 32 hexadecimal digits.
        train_model, optimize_transformer, device: Attributes of
            the original whose feature is not available: :meth:`convert` refuses any value but the default.
    """

    input_shape: dict[str, Sequence[int]] = field(default_factory=dict)
    input_value: dict[str, Sequence[float]] = field(default_factory=dict)
    input_format: str = "NHWC"
    input_data_type: str = "DEFAULT"
    output_data_type: str = "DEFAULT"
    output_format: str = ""
    weight_fp16: bool = False
    optimize: str = "general"
    infer: bool = False
    save_type: str | Sequence[str] = DEFAULT_SAVE_TYPE
    ms_compat: str = "device"
    nb_target: str = "arm"
    nb_fp16: bool = False
    uint8_weights: str = "auto"
    min_cosine: float | None = None
    threads: int = 0
    calibration_data: Samples | None = None
    verbose: bool = False
    decrypt_key: str = field(default="", repr=False)
    decrypt_mode: str = "AES-GCM"
    enable_encryption: bool = False
    encrypt_key: str = field(default="", repr=False)
    train_model: bool = False
    optimize_transformer: bool = False
    device: str = ""
    _config: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def set_config_info(self, section: str, config_info: Mapping[str, str]) -> None:
        """Add the keys of one section, as in an INI file; later calls replace earlier keys."""
        if not isinstance(section, str):
            raise UsageError("section must be a text", where=f"set_config_info({section!r}, ...)")
        if not isinstance(config_info, Mapping):
            raise UsageError("config_info must be a dictionary of texts", where=f"set_config_info({section!r}, ...)")
        self._config.setdefault(section, {}).update({str(key): str(value) for key, value in config_info.items()})

    def get_config_info(self) -> dict[str, dict[str, str]]:
        """Everything given with :meth:`set_config_info`."""
        return {section: dict(keys) for section, keys in self._config.items()}

    def convert(
        self,
        fmk_type: str,
        model_file: str | Path,
        output_file: str | Path,
        weight_file: str | Path = "",
        config_file: str | Path = "",
    ) -> ConvertResult:
        """Convert one model; keys of :meth:`set_config_info` are added to those of ``config_file``.

        Raises:
            ConverterError: What is wrong, where, and what to do.
        """
        self._refuse_unavailable()
        if self.enable_encryption != bool(self.encrypt_key):
            missing = "encrypt_key" if self.enable_encryption else "enable_encryption=True"
            raise UsageError(f"has no effect without {missing}", where="encrypt_key, enable_encryption")
        request = ConvertRequest(
            model_file=model_file,  # type: ignore[arg-type]  # texts become paths there
            output_file=output_file,  # type: ignore[arg-type]
            fmk=fmk_type,
            weight_file=weight_file or None,  # type: ignore[arg-type]
            config=self._merged_config(config_file),
            input_shape=self._shapes(),
            input_value=self._values(),
            input_data_format=self.input_format,
            input_data_type=self.input_data_type,
            output_data_type=self.output_data_type,
            output_data_format=self.output_format,
            fp16=self.weight_fp16,
            optimize=self.optimize,
            save_type=self.save_type,  # type: ignore[arg-type]  # texts with commas are taken apart there
            ms_compat=self.ms_compat,
            nb_target=self.nb_target,
            nb_fp16=self.nb_fp16,
            uint8_weights=self.uint8_weights,
            infer=self.infer,
            min_cosine=self.min_cosine,
            threads=self.threads,
            decrypt_key=self.decrypt_key,
            decrypt_mode=self.decrypt_mode,
            encrypt_key=self.encrypt_key if self.enable_encryption else "",
            calibration_data=self.calibration_data,
        )
        return convert(request, log=_log(self.verbose))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        try:
            return {name: tuple(shape) for name, shape in self.input_shape.items()}
        except (AttributeError, TypeError):
            hint = 'for example {"input": [1, 3, 224, 224]}'
            raise UsageError(
                "must be sizes by input name", where=f"input_shape={self.input_shape!r}", hint=hint
            ) from None

    def _values(self) -> dict[str, tuple[float, ...]]:
        try:
            return {name: tuple(map(float, numbers)) for name, numbers in self.input_value.items()}
        except (AttributeError, TypeError, ValueError):
            raise UsageError(
                "must be numbers by input name",
                where=f"input_value={self.input_value!r}",
                hint='for example {"sr": [16000]}',
            ) from None

    def _refuse_unavailable(self) -> None:
        for attribute in fields(self):
            flag = UNAVAILABLE.get(attribute.name)
            if flag is not None and getattr(self, attribute.name) != attribute.default:
                raise UsageError(NOT_AVAILABLE[flag][1], where=f"{attribute.name}={getattr(self, attribute.name)!r}")

    def _merged_config(self, config_file: str | Path) -> QuantizationConfig | None:
        from converter_lite.config import config_from_mapping, load_config

        external = self.calibration_data is not None
        if config_file:
            return load_config(config_file, external_data=external, more=self._config)
        return config_from_mapping(self._config, external_data=external) if self._config else None


ALGORITHMS = {
    "KL": "KL",
    "hist": "PERCENTILE",
    "mse": "MSE",
    "abs_max": "MAX_MIN",
    "min_max": "MAX_MIN",
    "avg": "REMOVAL_OUTLIER",
}
"""PaddleSlim's ``algo`` -> ``activation_quant_method``; ``avg`` averages extremes over samples, as REMOVAL_OUTLIER does."""

STATIC_BITS = frozenset({4, 8})
"""Widths of weights and activations in static quantization."""

WEIGHT_TYPES = {"channel_wise_abs_max": "true", "abs_max": "false"}
"""PaddleSlim's ``weight_quantize_type`` -> ``per_channel``."""

OPERATOR_NAMES = {
    "conv2d": ("Conv",),
    "depthwise_conv2d": ("Conv",),
    "conv2d_transpose": ("ConvTranspose",),
    "mul": ("MatMul", "Gemm"),
    "matmul": ("MatMul", "Gemm"),
    "matmul_v2": ("MatMul", "Gemm"),
}
"""PaddleSlim's ``quantizable_op_type`` -> ONNX operators."""


def quant_post_static(
    model_dir: str | Path,
    quantize_model_path: str | Path,
    sample_generator: Samples,
    *,
    executor: object = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    batch_size: int = 1,
    batch_nums: int | None = None,
    algo: str = "KL",
    weight_quantize_type: str = "channel_wise_abs_max",
    quantizable_op_type: Sequence[str] = ("conv2d", "depthwise_conv2d", "mul"),
    weight_bits: int = 8,
    activation_bits: int = 8,
    skip_nodes: Sequence[str] = (),
    save_type: str | Sequence[str] = "ONNX",
    verbose: bool = False,
) -> ConvertResult:
    """Full quantization with PaddleSlim's parameter names.

    Args:
        model_dir: An ONNX file, the folder of a Paddle model, or the folder that ``model_filename`` lies in.
        quantize_model_path: Output path without suffix.
        sample_generator: Gives one sample at a time; a function is called for every pass over the data.
        executor: Accepted for existing calls; there is nothing to execute with.
        model_filename: File within ``model_dir``.
        params_filename: File within ``model_dir`` with the parameters of a Paddle model; refused for ONNX.
        batch_size: Samples per batch; ``batch_size * batch_nums`` samples are used.
        batch_nums: Number of batches; ``None`` = all samples.
        algo: One of :data:`ALGORITHMS`.
        weight_quantize_type: One of :data:`WEIGHT_TYPES`.
        quantizable_op_type: Operators to quantize, names of :data:`OPERATOR_NAMES`.
        weight_bits: 8, or 4 in ONNX files.
        activation_bits: The same.
        skip_nodes: Names of nodes that stay float.
        save_type: Output formats, as ``--saveType`` takes them.
        verbose: Print the summary lines of the command line.

    Raises:
        ConverterError: What is wrong, where, and what to do.
    """
    del executor
    source = _source(model_dir, model_filename, params_filename)
    if not {weight_bits, activation_bits} <= STATIC_BITS:
        raise UsageError(
            "layers that compute with integers have 4 or 8 bits",
            where=f"weight_bits={weight_bits}, activation_bits={activation_bits}",
            hint="quant_post_dynamic takes weight_bits of 1 to 16, with activations in float; "
            "skip_nodes leaves layers in float that 8 bits hurt",
        )
    if sample_generator is None:
        raise UsageError("static quantization needs samples", where="sample_generator")
    if batch_size < 1 or (batch_nums is not None and batch_nums < 1):
        raise UsageError("must be at least 1", where="batch_size, batch_nums")
    converter = Converter(calibration_data=sample_generator)
    method = _known("algo", algo, ALGORITHMS)
    per_channel = _known("weight_quantize_type", weight_quantize_type, WEIGHT_TYPES)
    converter.set_config_info("common_quant_param", {"quant_type": "FULL_QUANT", "bit_num": str(weight_bits)})
    full = {"activation_quant_method": method, "per_channel": per_channel, "activation_bits": str(activation_bits)}
    converter.set_config_info("full_quant_param", full)
    request = replace(
        source,
        output_file=Path(quantize_model_path),
        config=_with_skipped(converter, _skipped(source, quantizable_op_type, skip_nodes)),
        save_type=save_type,  # type: ignore[arg-type]  # texts with commas are taken apart there
        calibration_data=sample_generator,
        calibration_size=None if batch_nums is None else batch_size * batch_nums,
    )
    return convert(request, log=_log(verbose))


def quant_post_dynamic(
    model_dir: str | Path,
    save_model_dir: str | Path,
    *,
    model_filename: str | None = None,
    params_filename: str | None = None,
    save_model_filename: str = "quantized_model",
    quantizable_op_type: Sequence[str] = ("conv2d", "mul"),
    weight_bits: int = 8,
    weight_quantize_type: str = "channel_wise_abs_max",
    generate_test_model: bool = False,
    save_type: str | Sequence[str] = "ONNX",
    verbose: bool = False,
) -> ConvertResult:
    """Weight quantization with PaddleSlim's parameter names (what it calls dynamic stores weights as integers).

    Args:
        model_dir: An ONNX file, the folder of a Paddle model, or the folder that ``model_filename`` lies in.
        save_model_dir: Output folder.
        model_filename: File within ``model_dir``.
        params_filename: File within ``model_dir`` with the parameters of a Paddle model; refused for ONNX.
        save_model_filename: Output name without suffix.
        quantizable_op_type: Operators to quantize, names of :data:`OPERATOR_NAMES`.
        weight_bits: 1 to 16.
        weight_quantize_type: One of :data:`WEIGHT_TYPES`.
        generate_test_model: Refused: the written file itself runs everywhere.
        save_type: Output formats, as ``--saveType`` takes them.
        verbose: Print the summary lines of the command line.

    Raises:
        ConverterError: What is wrong, where, and what to do.
    """
    source = _source(model_dir, model_filename, params_filename)
    if generate_test_model:
        raise UsageError("there is no separate test model: the written file runs as it is", where="generate_test_model")
    if weight_bits < 1:
        raise UsageError(f"must be 1 to 16, not {weight_bits}", where="weight_bits")
    converter = Converter()
    common = {"quant_type": "WEIGHT_QUANT", "bit_num": str(weight_bits), "min_quant_weight_channel": "0"}
    converter.set_config_info("common_quant_param", common)
    per_channel = _known("weight_quantize_type", weight_quantize_type, WEIGHT_TYPES)
    converter.set_config_info("weight_quant_param", {"per_channel": per_channel})
    request = replace(
        source,
        output_file=Path(save_model_dir) / save_model_filename,
        config=_with_skipped(converter, _skipped(source, quantizable_op_type, ())),
        save_type=save_type,  # type: ignore[arg-type]  # texts with commas are taken apart there
    )
    return convert(request, log=_log(verbose))


def _source(model_dir: str | Path, model_filename: str | None, params_filename: str | None) -> ConvertRequest:
    """A request that names the model; anything but an ``.onnx`` file is a Paddle model."""
    if not isinstance(model_dir, str | PathLike):
        hint = "PaddleSlim's calls begin with the executor: leave it out, or name it at the end (executor=...)"
        raise UsageError(f"must be a path, not {type(model_dir).__name__}", where="model_dir", hint=hint)
    path = Path(model_dir) / model_filename if model_filename is not None else Path(model_dir)
    named = path.suffix in (".pdmodel", ".json") or path.name == "__model__"
    is_paddle = path.is_dir() or named or params_filename is not None
    if path.suffix == ".onnx" and params_filename is not None:
        raise UsageError("an ONNX model has no parameter file", where="params_filename", hint="leave it out")
    weights = Path(model_dir) / params_filename if params_filename is not None else None
    return ConvertRequest(path, Path(), fmk="PADDLE" if is_paddle else "ONNX", weight_file=weights)


def _known(parameter: str, value: str, table: Mapping[str, str]) -> str:
    from converter_lite.errors import did_you_mean

    if value not in table:
        raise UsageError(f"{value!r} is not one of {', '.join(table)}{did_you_mean(value, table)}", where=parameter)
    return table[value]


def _with_skipped(converter: Converter, names: tuple[str, ...]) -> QuantizationConfig | None:
    """The configuration with ``skip_quant_node``, which bypasses the parser: names may contain commas."""
    config = converter._merged_config("")
    if config is None:
        return None
    return replace(config, common_quant_param=replace(config.common_quant_param, skip_quant_node=names))


def _skipped(source: ConvertRequest, quantizable: Sequence[str], skip_nodes: Sequence[str]) -> tuple[str, ...]:
    """``skip_quant_node`` that leaves the quantizer only the wanted weighted operators."""
    from converter_lite.errors import did_you_mean
    from converter_lite.pipeline.read import read_source

    unknown = [name for name in quantizable if name not in OPERATOR_NAMES]
    if unknown:
        raise UsageError(
            f"unknown operator {unknown[0]!r}{did_you_mean(unknown[0], OPERATOR_NAMES)}", where="quantizable_op_type"
        )
    wanted = {operator for name in quantizable for operator in OPERATOR_NAMES[name]}
    weighted = {operator for operators in OPERATOR_NAMES.values() for operator in operators}
    names = list(skip_nodes)
    if not weighted <= wanted:
        graph = read_source(source, static_shapes={}).model.graph
        names += [node.name or "" for node in graph if node.op_type in weighted - wanted]
    return tuple(names)


def _log(verbose: bool) -> Log:
    import sys

    return Log(NORMAL, sys.stdout, sys.stderr) if verbose else Log()
