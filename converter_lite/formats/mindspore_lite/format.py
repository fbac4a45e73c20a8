"""The format as the conversion uses it: check, plan, write, and read back for the proof."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from converter_lite.errors import UsageError
from converter_lite.formats import permutation as pm
from converter_lite.formats.base import FileOptions, Written
from converter_lite.formats.mindspore_lite.enums import Format
from converter_lite.formats.mindspore_lite.exporter.writer import check, has_channels_last, refusal, write
from converter_lite.formats.mindspore_lite.flags import MsFlags
from converter_lite.formats.mindspore_lite.importer.reader import read, to_quantized_model
from converter_lite.formats.mindspore_lite.narrowing import NARROWED
from converter_lite.formats.mindspore_lite.options import Compatibility, MsOptions
from converter_lite.formats.mindspore_lite.planning import adapt_plan, for_device
from converter_lite.formats.requirements import DEVICE_FUSED, DEVICE_INLINED, DEVICE_OPSET, GraphRequirements
from converter_lite.graph import static_shape
from converter_lite.log import Log
from converter_lite.passes.io_types import UNCHANGED_TYPES, IoTypes
from converter_lite.passes.scalars import take_scalars
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.placeholders import with_placeholders
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.system.encryption import Key, decrypted, encrypted
from converter_lite.system.files import read_regular

HALF_NOTE = (
    "fp16=on: of several such files in a process, MindSpore Lite's package for x86 computes only the first one right"
)

MS_REQUIREMENTS = GraphRequirements(
    static=True,
    fused=DEVICE_FUSED,
    opset=DEVICE_OPSET,
    inlined=DEVICE_INLINED,
    spelled_out=frozenset(
        {
            "AffineGrid",
            "Atan",
            "BitwiseAnd",
            "Celu",
            "Col2Im",
            "Concat of truth values",
            "Constant",
            "Conv",
            "Conv of long rows",
            "ConcatFromSequence",
            "Conv with computed filters",
            "ConvTranspose",
            "DFT",
            "Einsum",
            "Expand of truth values",
            "Gather",
            "GatherND",
            "GridSample",
            "If",
            "IsInf",
            "Recurrent layers of other forms",
            "Loop",
            "MatMul",
            "MaxPool of volumes",
            "MaxPool with dilations",
            "MaxPool with places",
            "MaxUnpool",
            "Pad of whole numbers",
            "ReduceLogSumExp",
            "ReverseSequence",
            "Round",
            "STFT",
            "ScatterND",
            "Softmax",
            "Softmax of many axes",
            "Transpose of many axes",
            "Trilu",
        }
    ),
)
"""What the writer requires of a graph."""


@dataclass(frozen=True, slots=True)
class MsFormat:
    """MindSpore Lite files; see :class:`converter_lite.formats.base.OutputFormat`.

    Attributes:
        options: Choices of the writer.
        key: What the file is encrypted with; empty: nothing.
    """

    options: MsOptions = field(default_factory=MsOptions)
    key: bytes = field(default=b"", repr=False)
    name: str = "MINDIR_LITE"
    beside: tuple[str, ...] = ()
    is_timed: bool = False
    suffix: str = ".ms"
    requirements: GraphRequirements = MS_REQUIREMENTS
    io_types: IoTypes = UNCHANGED_TYPES

    @classmethod
    def of(cls, options: FileOptions) -> MsFormat:
        """The format with the options of a request.

        Raises:
            UsageError: Element types were asked for that the runtime's integer files do not have.
        """
        asked = options.io_types
        for kind, word in (("input", asked.inputs), ("output", asked.outputs)):
            if word not in ("DEFAULT", "FLOAT"):
                raise UsageError(
                    f"{kind}s of a .ms file keep the model's types, as float32 or int32, and cannot become {word}",
                    where=f"--{kind}DataType={word}",
                    hint="leave it at DEFAULT, or use --saveType=ONNX",
                )
        compatibility = Compatibility(options.own(MsFlags).ms_compat)
        encode = options.config is None or options.config.common_quant_param.enable_encode
        return cls(MsOptions(compatibility=compatibility, encode=encode, float16=options.fp16), options.key)

    def check(self, model: ir.Model) -> None:
        """Refuse a model that the format cannot express, before any other work.

        Raises:
            TargetError: It cannot; all nodes and reasons are named.
        """
        problems = check(model, options=self.options)
        if problems:
            raise refusal(problems)

    def restrict(self, choice: Choice, model: ir.Model) -> Choice:
        """The choice with the policy of the runtime's integer kernels."""
        del model
        return for_device(choice, packed=self.options.encode)

    def forecast(self, quantized: QuantizedModel, choice: Choice | None) -> int:
        """Bytes of a file with placeholder parameters.

        Raises:
            ConverterError: Such a file cannot be written.
        """
        if choice is not None:
            quantized = with_placeholders(quantized.model, quantized.plan, choice)
        return len(write(quantized, options=self.options))

    def adapt(self, quantized: QuantizedModel, *, log: Log | None = None) -> QuantizedModel:
        """See :class:`~converter_lite.formats.base.OutputFormat`."""
        del log
        return adapt_plan(quantized)

    def write(self, quantized: QuantizedModel, path: Path, *, log: Log | None = None) -> Written:
        """Write the model.

        Raises:
            TargetError: Nodes cannot be expressed.
            FormatError: The file would be larger than 2 GiB.
        """
        del log
        notes: list[str] = []
        data = write(quantized, options=self.options, notes=notes)
        path.write_bytes(encrypted(data, self.key) if self.key else data)
        plain = replace(self.options, compatibility=Compatibility.DEVICE)
        if plain != self.options and data == write(quantized, options=plain):
            notes.append("msCompat=wheel: nothing had to be stored otherwise; the file is that of msCompat=device")
        if self.options.float16:
            notes.append(HALF_NOTE)
        return Written([path], tuple(notes))

    def runnable(self, path: Path, *, like: ir.Model) -> bytes:
        """The written file as an ONNX model with the inputs of ``like``.

        Weights that the runtimes dequantize at load are floats here too.

        Raises:
            FormatError: The file is not valid.
        """
        from converter_lite.quantization.qdq.build import qdq_model

        data = read_regular(path)
        if self.key:
            data = decrypted(data, Key(self.key, "AES-GCM"), str(path))
        rebuilt = rebuild(data, like=like)
        computes = any(node.mode in (NodeMode.INTEGER, NodeMode.DYNAMIC) for node in rebuilt.plan.nodes.values())
        model = qdq_model(rebuilt) if computes else rebuilt.model
        take_scalars(model, like)
        return ir.serde.serialize_model(model).SerializeToString()


output_format = MsFormat.of


def rebuild(data: bytes, *, like: ir.Model) -> QuantizedModel:
    """The content of a file with the interface of the model that it was written from.

    Inputs that the file has in NHWC and ``like`` in NCHW become NCHW again, and those whose elements were narrowed
    (int64, float16, double) get their type back, so that both take the same samples.

    Raises:
        FormatError: The file is not valid.
    """
    model = read(data)
    inputs = {value.name: value for value in like.graph.inputs}
    turned, types = [], {}
    for index in model.inputs:
        tensor = model.tensors[index]
        value = inputs.get(tensor.name)
        shape = static_shape(value)
        is_image = shape is not None and len(shape) == 4 and tensor.dims == pm.permute(shape, pm.NHWC)
        is_labelled = tensor.format == Format.NHWC and value is not None and not has_channels_last(value)
        if is_image and (tensor.dims != shape or is_labelled):  # of a cube, dimensions say nothing
            turned.append(tensor.name)
        if value is not None and value.dtype is not None and NARROWED.get(value.dtype) is tensor.dtype:
            types[tensor.name] = value.dtype
    return to_quantized_model(data, nchw_inputs=turned, input_types=types)
