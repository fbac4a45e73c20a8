"""What a conversion is asked to do: plain data, made by the command line and the programming interface."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from converter_lite.errors import UsageError, one_of
from converter_lite.execution.names import LOCAL, check_executor
from converter_lite.formats.mindspore_lite.flags import MsFlags
from converter_lite.formats.onnx.flags import OnnxFlags
from converter_lite.formats.paddle.flags import NbFlags
from converter_lite.formats.registry import FORMATS, FRAMEWORKS
from converter_lite.system.encryption import WRITTEN_KEY_BYTES, key_of, reading_key
from converter_lite.system.files import refuse_home_sign

if TYPE_CHECKING:
    from converter_lite.config.settings import QuantizationConfig

NOT_AVAILABLE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "trainModel": ("false", "training models are not converted"),
        "device": ("", "results are not bound to a device here; use [full_quant_param] target_device"),
        "optimizeTransformer": (
            "false",
            "there is no separate transformer optimization; --optimize=general does all there is",
        ),
    }
)
"""Flags of the original whose feature is not available: the value without effect, and why any other is refused."""

ENCRYPTED_FRAMEWORKS = ("MINDIR", "MSLITE")
"""Values of ``--fmk`` whose files may be encrypted."""

INPUT_TYPES = ("FLOAT16", "FLOAT", "INT8", "UINT8", "INT32", "INT64", "DEFAULT")
OUTPUT_TYPES = ("FLOAT16", "FLOAT", "INT8", "UINT8", "DEFAULT")
LAYOUTS = ("NHWC", "NCHW")

CHANNELS_LAST = ("TF", "TFLITE")
"""Values of ``--fmk`` whose pictures are NHWC; those of the others are NCHW."""

DEFAULT_SAVE_TYPE = ("MINDIR_LITE", "ONNX")
"""Default output formats: the original's, and the file that runs everywhere."""

OPTIMIZE = ("none", "general", "gpu_oriented", "ascend_oriented")
MAX_THREADS = 1024

PROOF_SAMPLES = 16
"""Samples on which the written file is compared with the float model."""

LARGE_PROOF_SAMPLES = 2
"""The same when the model is run block by block from disk."""

DEFAULT_MIN_COSINE = 0.95
"""Default quality gate, for 8 bits and more on real samples."""


SWITCHES = ("fp16", "infer", "dry_run", "quantize_if_possible", "allow_external_paths", "allow_unsafe_models")
"""Attributes that are true or false."""


REQUIRED_PATHS = ("model_file", "output_file")

PATHS = (
    *REQUIRED_PATHS,
    *("weight_file", "config_file", "plan", "save_plan", "json", "report", "cache", "preview", "proof_data"),
)
"""Attributes that name files and folders."""


@dataclass(frozen=True, slots=True)
class ConvertRequest(OnnxFlags, NbFlags, MsFlags):
    """Every option of a conversion; the defaults are those of the command line.

    Paths may be strings, and several output formats one string with commas. Options of one output format are declared in its
    folder and inherited from there (``OnnxFlags``, ``MsFlags``, ``NbFlags``).

    Raises:
        UsageError: A value is unknown or out of range; it is named like the flag of the command line.

    Attributes:
        model_file: Model to read.
        output_file: Path of the result; the suffix of each format is appended unless it is there.
        fmk: Framework of the model.
        weight_file: File with the parameters of a CAFFE or PADDLE model; ``None`` looks beside the model.
        config_file: INI file; ``None`` together with ``config`` converts in float.
        config: A configuration made in memory, instead of ``config_file``.
        input_shape: Input name -> fixed shape.
        input_value: Input name -> its elements, or one number for all: the input becomes a constant.
        input_data_format: Layout of BIN calibration files of 4-D inputs, NHWC or NCHW.
        input_data_type: Element type of the inputs of the result: DEFAULT keeps the model's.
        output_data_type: The same for the outputs.
        output_data_format: Layout of four-dimensional outputs of the result, NHWC or NCHW; empty: that of the model.
        fp16: Store float constants that stay float as float16.
        optimize: Level of graph optimization.
        save_type: Output formats, in order.
        quantize_if_possible: A model that is quantized already, or has nothing to quantize, is converted with a warning.
        infer: Run the result once on random data even where there are calibration samples.
        proof_samples: Samples on which the written file is compared with the float model, at most.
        proof_data: Those samples, an ``.npz`` file or a folder of BIN files, instead of calibration samples or random ones.
        min_cosine: Quality gate; ``None`` applies the default rule, 0 switches it off.
        min_speedup: Least speed of an ONNX file, as a multiple of the float model's; ``None``: a slower file is a warning.
        plan: JSON file with plans to use instead of making them.
        save_plan: Where to write the plans.
        dry_run: Make decisions and forecast the size, write nothing.
        json: Where to write a machine-readable result; after a failure only the command line writes one.
        report: Where to write the page about the result.
        threads: Worker threads; 0 = one per core.
        allow_external_paths: Read external data and calibration files that lie outside their folder too.
        allow_unsafe_models: Code that a file of a framework holds may run, in the process of that framework.
        cache: Folder for statistics of activations, which later runs on the same graph and data use.
        executor: Where shards of the calibration samples are observed: ``local``, ``dask`` (worker processes on this machine)
            or ``dask:ADDRESS`` (of a scheduler).
        preview: Folder for pictures of the first prepared samples, as the model gets them.
        decrypt_key: Hexadecimal key of an encrypted MINDIR or MSLITE model.
        decrypt_mode: AES-GCM or AES-CBC.
        encrypt_key: Hexadecimal key that a ``.ms`` file is encrypted with (AES-GCM); empty: it is not.
        calibration_data: Samples from Python instead of ``calibrate_path``.
        calibration_size: How many of them; ``None`` = as many as ``calibrate_size`` says, all without it.
    """

    model_file: Path
    output_file: Path
    fmk: str = "ONNX"
    weight_file: Path | None = None
    config_file: Path | None = None
    config: QuantizationConfig | None = None
    input_shape: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    input_value: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    input_data_format: str = "NHWC"
    input_data_type: str = "DEFAULT"
    output_data_type: str = "DEFAULT"
    output_data_format: str = ""
    fp16: bool = False
    optimize: str = "general"
    save_type: tuple[str, ...] = DEFAULT_SAVE_TYPE
    quantize_if_possible: bool = False
    infer: bool = False
    proof_samples: int = PROOF_SAMPLES
    proof_data: Path | None = None
    min_cosine: float | None = None
    min_speedup: float | None = None
    plan: Path | None = None
    save_plan: Path | None = None
    dry_run: bool = False
    json: Path | None = None
    report: Path | None = None
    threads: int = 0
    cache: Path | None = None
    executor: str = "local"
    preview: Path | None = None
    allow_external_paths: bool = False
    allow_unsafe_models: bool = False
    decrypt_key: str = field(default="", repr=False)
    decrypt_mode: str = "AES-GCM"
    encrypt_key: str = field(default="", repr=False)
    calibration_data: Any = None
    calibration_size: int | None = None

    def __post_init__(self) -> None:
        if str(self.output_file).endswith("/"):
            raise UsageError(
                "outputFile names a directory",
                where=f"--outputFile={self.output_file}",
                hint="add a file name, without suffix",
            )
        for name in PATHS:
            object.__setattr__(self, name, _path(name, getattr(self, name)))
        self._check_types()
        names = self.save_type.split(",") if isinstance(self.save_type, str) else self.save_type
        named = tuple(dict.fromkeys(filter(None, map(str.strip, names))))
        if self.save_type and not named:
            raise UsageError("no format is named", where=f"--saveType={self.save_type}")
        object.__setattr__(self, "save_type", named)
        self._check_words()
        if self.min_cosine is not None and not -1.0 <= self.min_cosine <= 1.0:
            raise UsageError(f"'{self.min_cosine}' is not a number from -1 to 1", where="--minCosine")
        if self.min_speedup is not None and not 0.0 < self.min_speedup < float("inf"):
            raise UsageError(f"'{self.min_speedup}' is not a number above 0", where="--minSpeedup")
        if not 0 <= self.threads <= MAX_THREADS:
            raise UsageError(f"'{self.threads}' is not a number of threads (0 to {MAX_THREADS})", where="--threads")

    def without_effect(self, config: QuantizationConfig | None) -> tuple[str, ...]:
        """Flags that were given and change nothing, a sentence each.

        Args:
            config: What the conversion is configured with.
        """
        data = config.data_preprocess_param if config is not None else None
        input_type = data.input_type if data is not None else None
        has_samples = self.calibration_data is not None or input_type is not None
        kind = config.common_quant_param.quant_type if config is not None else None
        is_full = kind is not None and kind.value == "FULL_QUANT"
        reads_files = input_type is not None and input_type.value == "BIN"
        reads_files = reads_files or (self.proof_data is not None and self.proof_data.is_dir())
        found = [
            (flag.given(value), name not in self.save_type, f"--saveType does not name {name}")
            for name, known in FORMATS.items()
            for flag in known.flags.flags()
            if (value := getattr(self, flag.attribute)) != flag.default
        ]
        found += [
            (
                f"--inputDataFormat={self.input_data_format}",
                self.input_data_format != "NHWC" and not reads_files,
                "no BIN files are read",
            ),
            (
                f"--cache={self.cache}",
                self.cache is not None and not is_full,
                "only FULL_QUANT has ranges of activations to keep",
            ),
            (
                f"--decryptMode={self.decrypt_mode}",
                self.decrypt_mode != "AES-GCM" and not self.decrypt_key,
                "no --decryptKey",
            ),
            (
                "--infer=true",
                self.infer and not has_samples and self.proof_data is None and not self.dry_run,
                "without samples the proof runs on random data anyway",
            ),
            (
                f"--minSpeedup={self.min_speedup}",
                self.min_speedup is not None and (self.dry_run or "ONNX" not in self.save_type),
                "a dry run measures nothing" if self.dry_run else "--saveType does not name ONNX",
            ),
            *(
                (f"--{flag}", self.dry_run and is_given, reason)
                for flag, is_given, reason in (
                    (f"proofData={self.proof_data}", self.proof_data is not None, "a dry run proves nothing"),
                    (f"minCosine={self.min_cosine}", self.min_cosine is not None, "a dry run proves nothing"),
                    ("infer=true", self.infer, "a dry run runs nothing"),
                    (f"cache={self.cache}", self.cache is not None, "a dry run reads no sample"),
                    (f"preview={self.preview}", self.preview is not None, "a dry run reads no sample"),
                    (f"executor={self.executor}", self.executor != LOCAL, "a dry run reads no sample"),
                )
            ),
        ]
        return tuple(f"{flag} has no effect: {reason}" for flag, is_idle, reason in found if is_idle)

    def _check_types(self) -> None:
        """Strings such as "off" or "4" would pass for true, or fail later as a defect."""
        rules: tuple[tuple[str, type | tuple[type, ...], str], ...] = (
            *((name, bool, "True or False") for name in SWITCHES),
            *(
                (name, str, "a text")
                for name in ("fmk", "optimize", "executor", "input_data_format", "output_data_format")
            ),
            ("threads", int, "a whole number"),
            ("proof_samples", int, "a whole number"),
            ("save_type", (str, tuple, list), "names of formats"),
            ("input_shape", Mapping, "sizes by input name"),
            ("input_value", Mapping, "numbers by input name"),
            ("min_cosine", (int, float, type(None)), "a number"),
            ("min_speedup", (int, float, type(None)), "a number"),
            ("calibration_size", (int, type(None)), "a whole number"),
        )
        for name, kinds, wanted in rules:
            if not isinstance(getattr(self, name), kinds):
                raise UsageError(f"must be {wanted}, not {getattr(self, name)!r}", where=name)
        for name in ("decrypt_key", "encrypt_key"):  # a key is not repeated in a message
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"must be a text, not {type(getattr(self, name)).__name__}", where=name)
        for name, sizes in self.input_shape.items():
            if not _are(sizes, Integral) or any(size < 0 for size in sizes):
                raise UsageError(f"must be whole numbers, not {sizes!r}", where=f"input_shape of {name!r}")
        for name, values in self.input_value.items():
            if not _are(values, Real):
                raise UsageError(f"must be numbers, not {values!r}", where=f"input_value of {name!r}")
        if not all(isinstance(name, str) for name in self.save_type):
            raise UsageError(f"must be names of formats, not {self.save_type!r}", where="save_type")
        if self.proof_samples < 1:
            raise UsageError(f"must be at least 1, not {self.proof_samples}", where="proof_samples")
        if self.calibration_size is not None and self.calibration_size < 1:
            raise UsageError(f"must be at least 1, not {self.calibration_size}", where="calibration_size")

    def _check_keys(self) -> None:
        if reading_key(self.decrypt_key, self.decrypt_mode) is not None and self.fmk not in ENCRYPTED_FRAMEWORKS:
            raise UsageError(
                f"only {' and '.join(ENCRYPTED_FRAMEWORKS)} models are read encrypted", where="--decryptKey"
            )
        if self.encrypt_key:
            key_of(self.encrypt_key, "encryptKey", (WRITTEN_KEY_BYTES,))
            others = [name for name in self.save_type or DEFAULT_SAVE_TYPE if name != "MINDIR_LITE"]
            if others:
                raise UsageError(
                    f"{' and '.join(others)} files cannot be encrypted, and would lie beside the encrypted one",
                    where="--encryptKey",
                    hint="use --saveType=MINDIR_LITE",
                )

    def _check_words(self) -> None:
        framework = FRAMEWORKS[one_of(self.fmk, tuple(FRAMEWORKS), "--fmk")]
        if isinstance(framework, str):
            raise UsageError(framework, where=f"--fmk={self.fmk}")
        for known in FORMATS.values():
            for flag in known.flags.flags():
                flag.check(getattr(self, flag.attribute))
        if self.weight_file is not None and not framework.has_weight_file:
            names = ", ".join(name for name, f in FRAMEWORKS.items() if not isinstance(f, str) and f.has_weight_file)
            raise UsageError(f"only {names} models have a second file here", where="--weightFile")
        self._check_keys()
        check_executor(self.executor)
        if self.executor != LOCAL and self.calibration_data is not None:
            raise UsageError(
                "samples from Python are in this process alone: the workers of a cluster cannot read them",
                where=f"executor={self.executor}",
                hint="name files with calibrate_path",
            )
        one_of(self.input_data_format, LAYOUTS, "--inputDataFormat")
        if self.output_data_format:
            one_of(self.output_data_format, LAYOUTS, "--outputDataFormat")
            if self.fmk == "MSLITE":
                raise UsageError(
                    "a .ms file does not say how its outputs are laid out",
                    where="--outputDataFormat",
                    hint="convert the model that it was made from",
                )
        one_of(self.input_data_type, INPUT_TYPES, "--inputDataType")
        one_of(self.output_data_type, OUTPUT_TYPES, "--outputDataType")
        object.__setattr__(self, "optimize", _optimize_level(self.optimize))
        if not self.save_type:
            object.__setattr__(self, "save_type", DEFAULT_SAVE_TYPE)


def _path(name: str, given: object) -> Path | None:
    if given is None and name not in REQUIRED_PATHS:
        return None
    if not isinstance(given, str | os.PathLike):
        raise UsageError(f"must be a path, not {given!r}", where=name)
    path = Path(given)
    if "\0" in str(path):
        raise UsageError("a path cannot hold a zero byte", where=name)
    refuse_home_sign(path)
    return path


def _are(values: object, kind: type) -> bool:
    """Whether these are numbers of a kind; those of NumPy register as numbers, and truth values are none."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        return False
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)


def _optimize_level(text: str) -> str:
    """The level; the chip that may follow ``ascend_oriented:`` has no effect here."""
    level, colon, chip = text.partition(":")
    if colon and (level != "ascend_oriented" or not chip):
        raise UsageError("only ascend_oriented takes a chip: ascend_oriented:CHIP", where=f"--optimize={text}")
    return one_of(level, OPTIMIZE, "--optimize")
