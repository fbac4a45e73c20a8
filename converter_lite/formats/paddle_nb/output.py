"""``.nb`` as an output format of a conversion (``--saveType=NAIVE_BUFFER``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import onnx_ir as ir

from converter_lite.config.names import TargetDevice
from converter_lite.errors import TargetError
from converter_lite.formats.form import GraphForm
from converter_lite.formats.output import FileOptions, Written
from converter_lite.formats.paddle_nb.form import NB_FORM
from converter_lite.formats.paddle_nb.full_plan import adapt_plan
from converter_lite.formats.paddle_nb.half import ONLY_ON_ARM, to_half
from converter_lite.formats.paddle_nb.quantize import decide_for_nb, quantize_for_nb, refuse_settings
from converter_lite.formats.paddle_nb.reader import read
from converter_lite.formats.paddle_nb.serialize import serialize
from converter_lite.formats.paddle_nb.weight_plan import round_planned
from converter_lite.formats.paddle_nb.writer import NbOptions, build, refuse_unwritable
from converter_lite.log import Log
from converter_lite.passes.io_types import UNCHANGED_TYPES, IoTypes
from converter_lite.quantization.choose import Choice
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.quantization.run import Resources
from converter_lite.targets.arm import ARM


@dataclass(frozen=True, slots=True)
class NbFormat:
    """Paddle-Lite files for one processor family; see :class:`converter_lite.formats.output.OutputFormat`.

    Attributes:
        target: ``arm``, ``x86`` or ``host``; ``--nbTarget``.
        half: Compute in float16 where ARM has kernels for it; ``--nbFp16``.
        meta_version: Layout of the file: 2, or 1 for libraries of release 2.7.
    """

    target: str = "arm"
    half: bool = False
    meta_version: int = 2
    name: str = "NAIVE_BUFFER"
    suffix: str = ".nb"
    form: GraphForm = NB_FORM
    io_types: IoTypes = UNCHANGED_TYPES

    @classmethod
    def of(cls, options: FileOptions) -> NbFormat:
        """The format with the options of a request.

        Raises:
            TargetError: An option asks for what the format does not have.
        """
        if options.fp16:
            raise TargetError(
                "a .nb file has no float16 constants",
                where="--fp16=on",
                hint="use --fp16=off; --nbFp16=on computes in float16",
            )
        if options.nb_fp16 and options.nb_target != "arm":
            raise TargetError(ONLY_ON_ARM, where="--nbFp16=on", hint="use --nbTarget=arm, or leave --nbFp16 out")
        asked = options.io_types
        for kind, word in (("input", asked.inputs), ("output", asked.outputs)):
            if word != "DEFAULT":
                raise TargetError(
                    f"{kind}s of a .nb file keep the model's types, and cannot become {word}",
                    where=f"--{kind}DataType={word}",
                    hint="leave it at DEFAULT, or use --saveType=ONNX",
                )
        return cls(options.nb_target, options.nb_fp16, options.nb_meta_version)

    def check(self, model: ir.Model) -> None:
        """Refuse a model that the target cannot express.

        Raises:
            TargetError: Nodes and reasons are named, all of them.
        """
        refuse_unwritable(model, self.target)

    def restrict(self, choice: Choice) -> Choice:
        """The choice for the processors of the file; x86 computes with integers only if the configuration names it.

        Raises:
            TargetError: The configuration names another device.
            ConfigError: A ``.nb`` file has no such quantization.
        """
        if choice.target.name not in (TargetDevice.CPU.value, self.target.upper()):
            raise TargetError(
                f"a .nb file for {self.target} cannot follow the rules of {choice.target.name}",
                where="[full_quant_param] target_device",
                hint="use --saveType=ONNX, or leave the key out",
            )
        refuse_settings(choice.settings)
        integer = (
            ARM.integer if self.target == "arm" or choice.target.name == TargetDevice.X86.value else frozenset[str]()
        )
        return replace(choice, target=replace(ARM, name=self.target, integer=integer, quantize_bias=False))

    def decide(self, model: ir.Model, choice: Choice) -> QuantPlan:
        """See :class:`~converter_lite.formats.output.OutputFormat`."""
        return decide_for_nb(model, choice.settings, target=self.target, integer=bool(choice.target.integer))

    def quantize(
        self, model: ir.Model, choice: Choice, *, plan: QuantPlan | None, resources: Resources
    ) -> QuantizedModel:
        """See :class:`~converter_lite.formats.output.OutputFormat`."""
        return quantize_for_nb(
            model,
            choice.settings,
            target=self.target,
            integer=bool(choice.target.integer),
            samples=resources.samples,
            plan=plan,
            engine=resources.engine,
            threads=resources.threads,
            log=resources.log,
            executor=resources.executor,
        )

    def forecast(self, quantized: QuantizedModel, choice: Choice | None) -> int:
        """Bytes of a file with stand-in parameters.

        Raises:
            ConverterError: Such a file cannot be written.
        """
        if choice is not None:
            quantized = replace(quantized, q_weights=round_planned(quantized.model, quantized.plan))
        return len(self._bytes(quantized)[0])

    def adapt(self, quantized: QuantizedModel) -> QuantizedModel:
        """The plan within what the target computes; on x86 weights stay integers and the computation is float."""
        return adapt_plan(quantized, self.target, integer=self.target == "arm")

    def write(self, quantized: QuantizedModel, path: Path, *, log: Log | None = None) -> Written:
        """Write the model.

        Raises:
            TargetError: The plan cannot be expressed.
        """
        data, notes = self._bytes(quantized)
        path.write_bytes(data)
        if log is not None:
            for note in notes:
                log.warning(note)
        return Written([path])

    def _bytes(self, quantized: QuantizedModel) -> tuple[bytes, tuple[str, ...]]:
        """The file, and what is to be told about it."""
        file = build(quantized, options=NbOptions(self.target, self.meta_version))
        file, notes = to_half(file) if self.half else (file, ())
        return serialize(file), tuple(notes)

    def runnable(self, path: Path, *, like: ir.Model) -> bytes:
        """What the file says, as a serialized ONNX model; what a device holds in float16 is rounded to that.

        Raises:
            FormatError: The file is not valid.
        """
        from converter_lite.formats.onnx_qdq.writer import build as build_onnx

        shapes = {str(v.name): tuple(v.shape.numpy()) for v in like.graph.inputs if v.shape and v.shape.is_static()}
        quantized = read(path.read_bytes(), where=str(path), input_shapes=shapes, rounded=True)
        return ir.to_proto(build_onnx(quantized)).SerializeToString()
