"""``.nb`` as an output format of a conversion (``--saveType=NAIVE_BUFFER``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from converter_lite.config.names import TargetDevice
from converter_lite.errors import ConfigError, UsageError
from converter_lite.formats.base import FileOptions, Written
from converter_lite.formats.paddle.exporter.build import NbOptions, build, refuse_unwritable
from converter_lite.formats.paddle.exporter.requirements import EXPORTER_REQUIREMENTS
from converter_lite.formats.paddle.flags import NbFlags
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.formats.paddle.planning import adapt_plan, adaptation_notes
from converter_lite.formats.paddle.policy import WEIGHT_BITS, PaddlePolicy, PaddleStorage
from converter_lite.formats.paddle.program import NbFile, refuse_difference
from converter_lite.formats.paddle.proof import proof_model, refuse_nan
from converter_lite.formats.paddle.refusals import refuse_choice, refuse_other_types
from converter_lite.formats.requirements import GraphRequirements
from converter_lite.graph import static_shape
from converter_lite.log import Log
from converter_lite.passes.io_types import UNCHANGED_TYPES, IoTypes
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.placeholders import with_placeholders
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.quantization.settings import FullSettings, WeightSettings
from converter_lite.system.files import read_regular
from converter_lite.targets.operands import stored_weight

if TYPE_CHECKING:
    from converter_lite.formats.paddle.exporter.sparsify import Sparsity

NB_REQUIREMENTS = EXPORTER_REQUIREMENTS
"""What the writer requires of a graph for ARM."""

X86_REQUIREMENTS = replace(NB_REQUIREMENTS, spelled_out=NB_REQUIREMENTS.spelled_out | {"LRN"})
"""The same for other processors, which have no kernel for LRN."""

PROTOBUF_NAMES = ("model", "params")
"""Files of a Paddle model, named as the original's ``opt`` names them."""


@dataclass(frozen=True, slots=True)
class NbFormat:
    """Paddle-Lite files for one processor family; see :class:`converter_lite.formats.base.OutputFormat`.

    Attributes:
        target: ``arm``, ``x86`` or ``host``; ``--nbTarget``.
        half: Compute in float16 where ARM has kernels for it; ``--nbFp16``.
        meta_version: Layout of the file: 2, or 1 for libraries of release 2.7.
        sparse: Share of zeros from which a 1x1 convolution for ARM becomes sparse; ``None`` leaves all dense.
        protobuf: Two files as Paddle stores models, :data:`PROTOBUF_NAMES`, instead of one.
    """

    target: str = "arm"
    half: bool = False
    meta_version: int = 2
    sparse: float | None = None
    protobuf: bool = False
    name: str = "NAIVE_BUFFER"
    beside: tuple[str, ...] = ()
    is_timed: bool = False
    requirements: GraphRequirements = NB_REQUIREMENTS
    io_types: IoTypes = UNCHANGED_TYPES

    @classmethod
    def of(cls, options: FileOptions) -> NbFormat:
        """The format with the options of a request.

        Raises:
            UsageError: An option asks for something that the format does not have.
        """
        if options.fp16:
            raise UsageError(
                "a .nb file has no float16 constants",
                where="--fp16=on",
                hint="use --fp16=off; --nbFp16=on computes in float16",
            )
        flags = options.own(NbFlags)
        if flags.nb_fp16 and flags.nb_target != "arm":
            from converter_lite.formats.paddle.exporter.half import ONLY_ON_ARM

            raise UsageError(ONLY_ON_ARM, where="--nbFp16=on", hint="use --nbTarget=arm, or leave --nbFp16 out")
        refuse_other_types(options.io_types, "a .nb file")
        return cls(
            *(flags.nb_target, flags.nb_fp16, flags.nb_meta_version, flags.nb_sparse_threshold, flags.nb_protobuf),
            requirements=NB_REQUIREMENTS if flags.nb_target == "arm" else X86_REQUIREMENTS,
        )

    @property
    def suffix(self) -> str:
        """End of the file name."""
        return "" if self.protobuf else ".nb"

    def check(self, model: ir.Model) -> None:
        """Refuse a model that the target cannot express.

        Raises:
            TargetError: Nodes and reasons are named, all of them.
        """
        refuse_unwritable(model, self.target)

    def restrict(self, choice: Choice, model: ir.Model) -> Choice:
        """The choice for the processors of the file; x86 computes with integers only if the configuration names it.

        Raises:
            ConfigError: The configuration names another device, or a ``.nb`` file has no such quantization.
        """
        devices = (TargetDevice.CPU.value, self.target.upper())
        refuse_choice(choice, devices, f"a .nb file for {self.target}")
        settings, policy, notes = choice.settings, PaddlePolicy(self.target, self._sparse_nodes(model)), choice.notes
        if policy.sparse:
            count = len(policy.sparse)
            notes += (f"{count} sparse convolutions keep float weights: integers are for the dense ones",)
        if isinstance(settings, FullSettings) and self.target != "arm" and choice.target.name != TargetDevice.X86.value:
            notes += (
                f"{self.target}: weights become int8, computation stays float: int8 kernels there saturate beyond 63 and"
                " are not faster; target_device=X86 asks for them. Keys about activations have no effect",
            )
            settings = _weights_only(settings)
        if isinstance(settings, WeightSettings):
            _refuse_widths(settings)
            settings = replace(settings, storage=PaddleStorage(policy=policy))
        return replace(choice, target=policy, settings=settings, notes=notes)

    def _sparse_nodes(self, model: ir.Model) -> frozenset[str]:
        """Names of nodes whose weights are stored without their zeros."""
        if self.sparse is None:
            return frozenset()
        file = build(QuantizedModel(model, QuantPlan(self.target)), options=NbOptions(self.target))
        weights = _sparsified(file, self.sparse).weights
        nodes = [(str(node.name), stored_weight(node)) for node in model.graph]
        return frozenset(name for name, weight in nodes if weight is not None and weight.name in weights)

    def forecast(self, quantized: QuantizedModel, choice: Choice | None) -> int:
        """Bytes of a file with placeholder parameters.

        Raises:
            ConverterError: Such a file cannot be written.
        """
        if choice is not None:
            quantized = with_placeholders(quantized.model, quantized.plan, choice)
        return sum(map(len, self._contents(self._file(quantized)[0])))

    def adapt(self, quantized: QuantizedModel, *, log: Log | None = None) -> QuantizedModel:
        """The plan within what the target computes; on x86 weights stay integers and the computation is float."""
        policy = PaddlePolicy(self.target)
        adapted = adapt_plan(quantized, policy, integer=self.target == "arm", exact=not self.half)
        if log is not None:
            for note in adaptation_notes(quantized, adapted, policy):
                log.warning(note)
        return adapted

    def write(self, quantized: QuantizedModel, path: Path, *, log: Log | None = None) -> Written:
        """Write the model; what is written is parsed and compared.

        Raises:
            TargetError: The plan cannot be expressed.
            ModelError: A constant holds NaN.
        """
        file, notes = self._file(quantized)
        paths = [path.with_name(name) for name in PROTOBUF_NAMES] if self.protobuf else [path]
        for made, data in zip(paths, self._contents(file), strict=True):
            made.write_bytes(data)
        if log is not None:
            for note in notes:
                log.warning(note)
        return Written(paths)

    def _file(self, quantized: QuantizedModel) -> tuple[NbFile, tuple[str, ...]]:
        """The structure of the file, and what the user should know about it."""
        file = build(quantized, options=NbOptions(self.target, self.meta_version))
        notes: tuple[str, ...] = ()
        refuse_nan(file)
        if self.sparse is not None:
            notes += _sparsified(file, self.sparse).notes
        if self.half:
            from converter_lite.formats.paddle.exporter.half import to_half

            file, more = to_half(file)
            notes += more
        return file, notes

    def _contents(self, file: NbFile) -> list[bytes]:
        if self.protobuf:
            from converter_lite.formats.paddle.inference_model.writer import protobuf_files

            return protobuf_files(file)
        data = serialize(file)
        refuse_difference(parse(data), file)
        return [data]

    def runnable(self, path: Path, *, like: ir.Model) -> bytes:
        """The file as a serialized ONNX model; what a device holds in float16 is rounded accordingly.

        Raises:
            FormatError: The file is not valid.
        """
        shapes = {str(v.name): shape for v in like.graph.inputs if (shape := static_shape(v))}
        if self.protobuf:
            from converter_lite.formats.paddle.inference_model.reader import read_paddle

            quantized = read_paddle(path, path.with_name(PROTOBUF_NAMES[1]), input_shapes=shapes)
        else:
            quantized = read(read_regular(path), where=str(path), input_shapes=shapes, rounded=True)
        return proof_model(quantized, like, ends_at_127=True)


output_format = NbFormat.of


def _weights_only(settings: FullSettings) -> WeightSettings:
    """What remains of a full quantization if only weights become integers."""
    return WeightSettings(
        per_channel=settings.per_channel,
        bias_correction=settings.bias_correction,
        rounding=settings.rounding,
        skip=settings.skip,
    )


def _refuse_widths(settings: WeightSettings) -> None:
    searched = settings.mixed is not None
    if searched or settings.bits not in WEIGHT_BITS:
        found = "with searched widths" if searched else str(settings.bits)
        raise ConfigError(f"a .nb file stores weights with 8 or 16 bits, not {found}", hint="set bit_num to 8")


def _sparsified(file: NbFile, threshold: float) -> Sparsity:
    from converter_lite.formats.paddle.exporter.sparsify import sparsify  # few conversions need it

    return sparsify(file, threshold)
