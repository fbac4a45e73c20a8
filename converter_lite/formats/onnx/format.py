"""ONNX with QuantizeLinear and DequantizeLinear (QDQ) as an output format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from converter_lite.config.names import BLOCK_BITS, DequantStrategy, QuantType
from converter_lite.errors import ConfigError, ModelError
from converter_lite.formats.base import FileOptions, Written
from converter_lite.formats.onnx.flags import OnnxFlags
from converter_lite.formats.onnx.misread_weights import hide_misread_weights
from converter_lite.formats.onnx.moved_integers import quantize_moved
from converter_lite.formats.requirements import GraphRequirements
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.log import Log
from converter_lite.passes.io_types import IoTypes, change_io_types
from converter_lite.quantization import forecast
from converter_lite.quantization.blocks import block_spec
from converter_lite.quantization.choice import Choice, with_one_scale
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.qdq.parts import TWO_PARTS
from converter_lite.quantization.qdq.recurrent import OPERATOR as LSTM
from converter_lite.quantization.settings import Blocks, FullSettings, WeightSettings
from converter_lite.quantization.storage import NEWER_ONNX_STORAGE
from converter_lite.runtime.saturation import has_integer_weights, saturating_weights, without_saturation
from converter_lite.runtime.serializing import constant_bytes
from converter_lite.targets.devices import CPU
from converter_lite.targets.policy import Policy
from converter_lite.targets.spec import TargetSpec

ONNX_REQUIREMENTS = GraphRequirements(
    fused=frozenset({"Gemm"}), slow=frozenset({"DFT", "STFT"}), keeps_qdq=True, compact=True
)
"""Any graph; matrix products replace equivalent convolutions, since their integer kernels can give floats, and Fourier transforms
(docs/decisions/0036-long-transforms.md)."""

UINT8_OFFSET = 128
"""What makes int8 values uint8."""

SHOWN_NODES = 3
"""Nodes that are named."""

LONGEST_NAME = 40
"""Characters of their names."""

AT_LOAD_NOTE = "weights become float when a runtime loads the file; dequant_strategy=ON_THE_FLY leaves it to every run"
ON_THE_FLY_NOTE = "weights become float at every run, which takes less memory and more time"
ROUNDED_NOTE = (
    "; onnxruntime rounds what matrix products read to int8 then, unless session.qdq_matmulnbits_accuracy_level is 1"
)
TWO_BITS_NOTE = "weights are stored in {} (operator set 25): runtimes older than that do not load the file"
ATTENTION_NOTE = (
    "{} x Attention is written as one operator (operator set 23): runtimes older than onnxruntime 1.24 do not load the "
    "file; [dynamic_quant_param] attention_operator=false for them"
)
EXACT_NOTE = "no integer kernel can saturate: the same numbers on every x86 processor"
UINT8_NOTE = "{} weights are stored as uint8: exact on every processor, and slower than int8 (--uint8Weights=off)"
NO_UINT8_NOTE = "uint8Weights=on: there is no int8 weight with which a kernel could saturate"
SATURATING_NOTE = (
    "x86 processors without VNNI saturate with {pairs} pairs of weights ({share:.1%}) in {nodes}: other numbers there than "
    "everywhere else; --uint8Weights=on stores those weights as uint8, which is exact and slower"
)
NO_HALF_NOTE = "fp16=on: no constant that stays float is large enough to be stored as float16"
BLOCKS_NOTE = (
    "a scale per block in standard operators: onnxruntime 1.27 or newer (1.20 with 4 bits and MatMul) computes them as one, and "
    "rounds what products read to int8 unless session.qdq_matmulnbits_accuracy_level is 1; accuracy_level puts it into the file"
)
RECURRENT_NOTE = (
    "{} x LSTM is written as onnxruntime's DynamicQuantizeLSTM: other runtimes do not load the file; [dynamic_quant_param] "
    "recurrent_operator=false for them"
)
OPERATORS_NOTE = "{} x blocks in operators of onnxruntime: other runtimes do not load the file"
WIDER_NOTE = "weights are stored in four bits or eight, though they need less: {}"


@dataclass(frozen=True, slots=True)
class OnnxFormat:
    """See :class:`converter_lite.formats.base.OutputFormat`."""

    options: FileOptions = field(default_factory=FileOptions)
    name: str = "ONNX"
    suffix: str = ".onnx"
    beside: tuple[str, ...] = (".onnx.data",)
    is_timed: bool = True
    requirements: GraphRequirements = ONNX_REQUIREMENTS

    @property
    def io_types(self) -> IoTypes:
        """As the request asks for."""
        return self.options.io_types

    def check(self, model: ir.Model) -> None:
        """Every ONNX model can be written as ONNX."""

    def restrict(self, choice: Choice, model: ir.Model) -> Choice:
        """Every device table can be expressed; weights may have scales per input channel, and be stored in two parts."""
        from converter_lite.formats.onnx.interface import with_integer_interface
        from converter_lite.formats.onnx.narrow import narrowest_width

        settings = choice.settings
        if isinstance(settings, FullSettings):
            choice = replace(choice, notes=(*choice.notes, *self._without_effect(choice, settings)))
            if _has_one_scale(choice.target) and self.options.config is not None:
                settings = with_one_scale(settings, self.options.config.full_quant_param)
                choice = replace(choice, settings=settings)
        if not isinstance(settings, WeightSettings):
            return with_integer_interface(choice, model, self.options.io_types)
        if settings.blocks is not None:
            _refuse_unknown_blocks(settings.blocks, settings.bits)
        is_newer = settings.mixed is not None and narrowest_width() == 2
        storage = NEWER_ONNX_STORAGE if is_newer else settings.storage
        return replace(choice, settings=replace(settings, input_scales=True, storage=storage))

    def _without_effect(self, choice: Choice, settings: FullSettings) -> Iterator[str]:
        """A sentence for each key that was written and that the device does not take."""
        device, config = choice.target, self.options.config
        if settings.per_channel and _has_one_scale(device):
            yield f"per_channel=true has no effect on {device.name}: its kernels have one scale per weight"
        asked = config is not None and config.given("full_quant_param", "bias_correction")
        if asked and settings.bias_correction and not device.bias_correction:
            yield f"bias_correction=true does not change biases for {device.name}, only how weights are rounded"

    def forecast(self, quantized: QuantizedModel, choice: Choice | None) -> int:
        """See :func:`~converter_lite.quantization.forecast.forecast_bytes`: nothing is rounded, however large the weights."""
        from converter_lite.formats.onnx.narrow import narrowest_width
        from converter_lite.quantization.qdq.parts import NARROWEST

        settings = choice.settings if choice is not None else None
        full_bits = settings.bits if isinstance(settings, FullSettings) else 8
        weights = settings if isinstance(settings, WeightSettings) else WeightSettings(bits=full_bits)
        widths = {weights.bits, *(params.spec.bits for params in quantized.plan.weights.values())}
        stored_as = forecast.StoredAs(
            bits=weights.bits,
            narrowest=narrowest_width() if _newer_forms(widths) else NARROWEST,
            per_channel=choice is not None and choice.is_per_channel,
            integer_bias=choice is not None and choice.target.quantize_bias,
            input_scales=weights.input_scales and weights.rounding.is_fitted,
            at_load=isinstance(settings, WeightSettings) and self._dequantizes_at_load(weights.bits),
            blocks=lambda node, weight: block_spec(node, weight, weights),
            model_bytes=self.options.model_bytes,
        )
        return forecast.forecast_bytes(quantized.model, quantized.plan, stored_as)

    def adapt(self, quantized: QuantizedModel, *, log: Log | None = None) -> QuantizedModel:
        """The plan with uint8 activations where those of another framework are asymmetric int8: the same real numbers.

        onnxruntime has integer kernels for both, but on x86 it uses those for int8 only where a tensor has one reader.
        """
        del log
        asked, plan = self.options.io_types, quantized.plan
        if "INT8" in (asked.inputs, asked.outputs) or not any(map(_is_asymmetric_int8, plan.activations.values())):
            return quantized
        activations = {name: _as_uint8(params) for name, params in plan.activations.items()}
        return replace(quantized, plan=replace(plan, activations=activations))

    def _writes_attention(self, plan: QuantPlan) -> bool:
        """Whether attentions become one operator: in dynamic quantization, which is for speed, unless the user says no."""
        config = self.options.config
        if config is not None and not config.dynamic_quant_param.attention_operator:
            return False
        is_dynamic = config is not None and config.common_quant_param.quant_type is QuantType.DYNAMIC_QUANT
        return is_dynamic or any(node.mode is NodeMode.DYNAMIC for node in plan.nodes.values())

    def write(self, quantized: QuantizedModel, path: Path, *, log: Log | None = None) -> Written:
        """See :class:`~converter_lite.formats.base.OutputFormat`."""
        from converter_lite.formats.onnx import writer
        from converter_lite.formats.onnx.at_load import dequantize_at_load
        from converter_lite.formats.onnx.residual import keep_additions_apart
        from converter_lite.formats.onnx.shuffled_channels import gather_shuffled_channels
        from converter_lite.passes.half import store_constants_as_float16

        model, notes = _built(quantized, attention=self._writes_attention(quantized.plan))
        if self._stores_exactly(quantized.plan):
            changed = {weight.weight for weight in saturating_weights(model)}
            model = without_saturation(model)
            if changed or self.options.own(OnnxFlags).uint8_weights == "on":
                notes = (UINT8_NOTE.format(len(changed)) if changed else NO_UINT8_NOTE, *notes)
        change_io_types(model, self.options.io_types)
        if quantized.plan.target == CPU.name and quantized.plan.quantized_nodes:
            keep_additions_apart(model)
            gather_shuffled_channels(model)
        is_half = self.options.fp16 or self.options.halves
        if is_half and not store_constants_as_float16(model) and self.options.fp16:
            notes = (NO_HALF_NOTE, *notes)
        if 0 < self.options.model_bytes < constant_bytes(model):
            store_constants_as_float16(model, exactly=True)
        modes = {node.mode for node in quantized.plan.nodes.values()}
        if NodeMode.WEIGHT in modes <= {NodeMode.WEIGHT, NodeMode.FLOAT}:
            if self._dequantizes_on_the_fly():
                notes = (ON_THE_FLY_NOTE + (ROUNDED_NOTE if _stores_matrices(quantized.plan) else ""), *notes)
            elif dequantize_at_load(model):
                notes = (AT_LOAD_NOTE, *notes)
        elif NodeMode.WEIGHT in modes:
            dequantize_at_load(model, of=lambda node: quantized.plan.mode(node) is NodeMode.WEIGHT)
        hide_misread_weights(model, quantized.plan)
        quantize_moved(model)
        if any(params.spec.block for params in quantized.plan.weights.values()):
            notes = (self._write_blocks(model), *notes)
        recurrent = sum(node.op_type == LSTM for node in model.graph)
        if recurrent and quantized.plan.quantized_nodes:
            notes = (RECURRENT_NOTE.format(recurrent), *notes)
        said = _saturation(model)
        if said and said != EXACT_NOTE and not quantized.plan.quantized_nodes and log is not None:
            log.warning(said)  # somebody else's choice of weights
        elif said:
            notes = (said, *notes)
        keep_metadata = self.options.own(OnnxFlags).keep_metadata
        return Written(writer.save(model, path, log, keep_metadata=keep_metadata), notes)

    def _write_blocks(self, model: ir.Model) -> str:
        """Blocks in the form that was asked for; returns the note."""
        from converter_lite.formats.onnx.block_operators import write_block_operators
        from converter_lite.formats.onnx.block_rows import keep_rows_apart

        config = self.options.config
        level = config.weight_quant_param.accuracy_level if config is not None else None
        count = write_block_operators(model, level)
        keep_rows_apart(model)
        return OPERATORS_NOTE.format(count) if count else BLOCKS_NOTE

    def _stores_exactly(self, plan: QuantPlan) -> bool:
        """Whether int8 weights that could saturate become uint8."""
        asked = self.options.own(OnnxFlags).uint8_weights
        return asked == "on" or (asked == "auto" and plan.came_with_the_model)

    def _dequantizes_at_load(self, bits: int) -> bool:
        from converter_lite.formats.onnx.at_load import can_cast
        from converter_lite.quantization.qdq.materialize import storage_type

        is_narrow = bits < 8  # others are known everywhere
        return not self._dequantizes_on_the_fly() and (not is_narrow or can_cast(storage_type(QuantSpec(bits)), 21))

    def _dequantizes_on_the_fly(self) -> bool:
        config = self.options.config
        return config is not None and config.weight_quant_param.dequant_strategy is DequantStrategy.ON_THE_FLY

    def runnable(self, path: Path, *, like: ir.Model) -> bytes | Path:
        """The file itself, checked."""
        from converter_lite.formats.onnx import writer

        del like
        writer.check(path)
        return path


output_format = OnnxFormat


def _has_one_scale(device: Policy) -> bool:
    """Whether the kernels of a device have one scale per weight, whatever a file asks for."""
    return isinstance(device, TargetSpec) and not device.per_channel_operators


def _refuse_unknown_blocks(blocks: Blocks, bits: int) -> None:
    from converter_lite.formats.onnx.block_operators import knows_block_operators

    has_operators = blocks.level is not None or (not blocks.symmetric and bits == BLOCK_BITS[0])
    widths = {bits, *(BLOCK_BITS[1:] if blocks.wide and blocks.level is not None else ())}
    if has_operators and not all(map(knows_block_operators, widths)):
        raise ConfigError(
            f"the installed onnxruntime has no products with blocks of {bits} bits, and a result is proven by running it",
            where="[weight_quant_param] block_size",
            hint="install onnxruntime 1.22 or newer, or use symmetric=true without accuracy_level",
        )


def _is_asymmetric_int8(params: QuantParams) -> bool:
    return params.spec.signed and params.spec.bits == 8 and bool(np.any(params.zero_point))


def _as_uint8(params: QuantParams) -> QuantParams:
    """The same grid, counted from 0; grids of other widths, and those without -128, as they are."""
    if not params.spec.signed or params.spec.bits != 8 or params.spec.narrow_range:
        return params
    spec = replace(params.spec, signed=False, symmetric=False)
    return replace(params, zero_point=params.zero_point + UINT8_OFFSET, spec=spec)


def _built(quantized: QuantizedModel, *, attention: bool) -> tuple[ir.Model, tuple[str, ...]]:
    """The graph, and the notes about it.

    Integers of one or two bits take two, those of five or six are stored in two parts, and attentions become one operator where
    that is wanted and everything here can read it.
    """
    from converter_lite.formats.onnx.narrow import narrowest_width

    stored = _newer_forms({params.spec.bits for params in quantized.plan.weights.values()})
    if stored:
        if narrowest_width() > 2:
            return qdq_model(quantized), (WIDER_NOTE.format("two-bit integers are newer than the libraries here"),)
        try:
            return qdq_model(quantized, narrowest=2), (TWO_BITS_NOTE.format(stored),)
        except ModelError as error:
            return qdq_model(quantized), (WIDER_NOTE.format(error.message),)
    if attention:
        return _with_attention(quantized)
    return qdq_model(quantized), ()


def _stores_matrices(plan: QuantPlan) -> bool:
    products = [node for node in plan.nodes.values() if node.op_type in ("MatMul", "Gemm")]
    return any(node.mode is NodeMode.WEIGHT for node in products)


def _saturation(model: ir.Model) -> str:
    """The note about integer kernels of x86 processors, empty for a model without any."""
    found = saturating_weights(model)
    if not found:
        return EXACT_NOTE if has_integer_weights(model) else ""
    shown = ", ".join(f"{weight.node[:LONGEST_NAME]} ({weight.pairs})" for weight in found[:SHOWN_NODES])
    rest = f" and {len(found) - SHOWN_NODES} nodes more" if len(found) > SHOWN_NODES else ""
    pairs = sum(weight.pairs for weight in found)
    return SATURATING_NOTE.format(pairs=pairs, share=pairs / sum(weight.of for weight in found), nodes=shown + rest)


def _newer_forms(widths: set[int]) -> str:
    """How weights that need two-bit integers are stored, empty without such weights."""
    forms = {
        "two bits": any(bits <= 2 for bits in widths),
        "parts of four and two bits": not widths.isdisjoint(TWO_PARTS),
    }
    return " or ".join(form for form, is_there in forms.items() if is_there)


def _with_attention(quantized: QuantizedModel) -> tuple[ir.Model, tuple[str, ...]]:
    from converter_lite.quantization.qdq import attention

    count = len(attention.find_attentions(quantized.model.graph, quantized.plan))
    if count and attention.knows_attention():
        try:
            return qdq_model(quantized, attention=True), (ATTENTION_NOTE.format(count),)
        except ModelError:
            return qdq_model(quantized), ()
    return qdq_model(quantized), ()
