"""Paddle inference models as an output format of a conversion (``--saveType=PADDLE``)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import onnx_ir as ir

from converter_lite.config.names import TargetDevice
from converter_lite.errors import ConfigError, UsageError
from converter_lite.formats.base import FileOptions, Written
from converter_lite.formats.paddle.exporter.build import lower, refuse
from converter_lite.formats.paddle.exporter.requirements import INFERENCE_REQUIREMENTS
from converter_lite.formats.paddle.inference_model.files import find_files
from converter_lite.formats.paddle.inference_model.lowering import InferenceLowering
from converter_lite.formats.paddle.inference_model.policy import NAME, WIDTHS, InferencePolicy
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.inference_model.writer import protobuf_files
from converter_lite.formats.paddle.kernels import Target
from converter_lite.formats.paddle.pir.writer import pir_bytes
from converter_lite.formats.paddle.planning import adapt_plan, adaptation_notes
from converter_lite.formats.paddle.policy import PaddleStorage
from converter_lite.formats.paddle.program import NbFile
from converter_lite.formats.paddle.proof import proof_model, refuse_nan
from converter_lite.formats.paddle.refusals import refuse_choice, refuse_other_types
from converter_lite.formats.requirements import GraphRequirements
from converter_lite.graph import static_shape
from converter_lite.log import Log
from converter_lite.passes.io_types import UNCHANGED_TYPES, IoTypes
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.placeholders import with_placeholders
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.quantization.settings import WeightSettings

WIDE_NOTE = "{} weights of 16 bits are stored as floats: Paddle restores 8 bits only"

PARAMETERS_SUFFIX = ".pdiparams"
"""End of the name of the second file."""

PIR_SUFFIX = ".json"
"""End of the name of the program of Paddle 3, which is written for a model that has one."""


@dataclass(frozen=True, slots=True)
class InferenceFormat:
    """Paddle inference models; see :class:`converter_lite.formats.base.OutputFormat`.

    A model that was read from a PIR program becomes one, too: both programs have the same parameters.
    """

    name: str = "PADDLE"
    suffix: str = ".pdmodel"
    beside: tuple[str, ...] = (PARAMETERS_SUFFIX,)
    is_timed: bool = False
    requirements: GraphRequirements = INFERENCE_REQUIREMENTS
    io_types: IoTypes = UNCHANGED_TYPES

    @classmethod
    def of(cls, options: FileOptions) -> InferenceFormat:
        """The format with the options of a request.

        Raises:
            UsageError: An option asks for something that the format does not have.
        """
        if options.fp16:
            raise UsageError("a Paddle model is written without float16", where="--fp16=on", hint="use --fp16=off")
        refuse_other_types(options.io_types, "a Paddle model")
        return cls(beside=(PARAMETERS_SUFFIX, PIR_SUFFIX) if _is_pir(options.source) else (PARAMETERS_SUFFIX,))

    @property
    def writes_pir(self) -> bool:
        """Whether there is a PIR program beside the other one."""
        return PIR_SUFFIX in self.beside

    def check(self, model: ir.Model) -> None:
        """Refuse a model that Paddle's operators cannot express.

        Raises:
            TargetError: Nodes and reasons are named, all of them.
        """
        _build(QuantizedModel(model, QuantPlan(NAME)))

    def restrict(self, choice: Choice, model: ir.Model) -> Choice:
        """The choice with what Paddle can compute with integers.

        Raises:
            ConfigError: The configuration names a device, or a Paddle model has no such quantization.
        """
        del model
        refuse_choice(choice, (TargetDevice.CPU.value,), "a Paddle model")
        settings, policy = choice.settings, InferencePolicy()
        if isinstance(settings, WeightSettings):
            if settings.mixed is not None or settings.bits not in WIDTHS:
                found = "searched widths" if settings.mixed is not None else f"{settings.bits} bits"
                raise ConfigError(
                    f"a Paddle model stores weights with 8 bits, not with {found}", hint="set bit_num to 8"
                )
            policy = InferencePolicy(weights_only=True)
            settings = replace(
                settings, storage=PaddleStorage(widths=WIDTHS, measured=WIDTHS, precise_share=0.0, policy=policy)
            )
        return replace(choice, target=policy, settings=settings)

    def forecast(self, quantized: QuantizedModel, choice: Choice | None) -> int:
        """Bytes of both files with placeholder parameters.

        Raises:
            ConverterError: Such files cannot be written.
        """
        if choice is not None:
            quantized = with_placeholders(quantized.model, quantized.plan, choice)
        file = _build(quantized)[0]
        return sum(map(len, protobuf_files(file))) + (len(pir_bytes(file.program)) if self.writes_pir else 0)

    def adapt(self, quantized: QuantizedModel, *, log: Log | None = None) -> QuantizedModel:
        """The plan within what Paddle computes with integers."""
        policy = InferencePolicy(weights_only=not quantized.plan.computes_with_integers)
        adapted = adapt_plan(quantized, policy, integer=True)
        if log is not None:
            for note in adaptation_notes(quantized, adapted, policy):
                log.warning(note)
        return adapted

    def write(self, quantized: QuantizedModel, path: Path, *, log: Log | None = None) -> Written:
        """Write the program and, beside it, its parameters, and the PIR program if there is one.

        The first two are read back and compared.

        Raises:
            TargetError: The plan cannot be expressed.
            ModelError: A constant holds NaN.
        """
        del log
        file, notes = _build(quantized)
        refuse_nan(file)
        paths = [path, path.with_suffix(PARAMETERS_SUFFIX)]
        for made, data in zip(paths, protobuf_files(file), strict=True):
            made.write_bytes(data)
        if self.writes_pir:
            paths.append(path.with_suffix(PIR_SUFFIX))
            paths[-1].write_bytes(pir_bytes(file.program))
        return Written(paths, notes)

    def runnable(self, path: Path, *, like: ir.Model) -> bytes:
        """The files as a serialized ONNX model: of the PIR program where there is one, as the other one was compared before.

        Raises:
            ModelError: They are not valid.
        """
        shapes = {str(v.name): shape for v in like.graph.inputs if (shape := static_shape(v))}
        program = path.with_suffix(PIR_SUFFIX) if self.writes_pir else path
        return proof_model(read_paddle(program, path.with_suffix(PARAMETERS_SUFFIX), input_shapes=shapes), like)


output_format = InferenceFormat.of


def _is_pir(source: Path | None) -> bool:
    """Whether a model file is a PIR program, or a folder has one."""
    if source is not None and source.is_dir():
        with suppress(UsageError):
            source = find_files(source)[0]
    return source is not None and source.suffix == PIR_SUFFIX


def _build(quantized: QuantizedModel) -> tuple[NbFile, tuple[str, ...]]:
    """Program and parameters, and where they depart from the plan.

    Raises:
        TargetError: A node cannot be expressed; all such nodes are named.
    """
    lowering = InferenceLowering(quantized, Target.HOST)
    refuse(lower(lowering), quantized.model, "a Paddle model")
    notes = (WIDE_NOTE.format(len(lowering.wide)),) if lowering.wide else ()
    return NbFile(lowering.program(), lowering.parameters), notes
