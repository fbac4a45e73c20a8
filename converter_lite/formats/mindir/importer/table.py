"""All operators that are translated, and those that are refused with a reason."""

from __future__ import annotations

from converter_lite.formats.mindir.importer import (
    activation,
    arithmetic,
    convolution,
    functions,
    indexing,
    linear,
    normalization,
    pooling,
    rearranging,
    recurrent,
    reduction,
    resizing,
    shape,
    structure,
)
from converter_lite.formats.mindir.importer.step import Kind
from converter_lite.formats.registration import joined

KINDS: dict[str, Kind] = joined(
    convolution.KINDS,
    pooling.KINDS,
    linear.KINDS,
    activation.KINDS,
    normalization.KINDS,
    recurrent.KINDS,
    arithmetic.KINDS,
    functions.KINDS,
    reduction.KINDS,
    shape.KINDS,
    indexing.KINDS,
    rearranging.KINDS,
    resizing.KINDS,
    structure.KINDS,
)
"""Operator -> how its nodes are translated."""

CALLED = "a function that is chosen at run time"
"""What refers to no primitive and no graph."""

_FLOAT = "export the float model, and let converter_lite quantize it"
_BRANCHES = "write it without if and while on tensors, or export the branch that is used"
_STATE = "give the state to the network as an input, and return the new one"

REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            "Switch",
            "switch",
            "switch_layer",
            "SwitchLayer",
            "Partial",
            "partial",
            "If",
            "While",
            "WhileLoop",
            "Scan",
            CALLED,
        ),
        ("control flow depends on numbers that are known at run time only", _BRANCHES),
    ),
    **dict.fromkeys(
        ("Assign", "AssignAdd", "AssignSub", "ScatterUpdate", "InplaceUpdate", "InplaceCopy"),
        ("it changes a weight or a state while the network runs", _STATE),
    ),
    **dict.fromkeys(
        ("Dropout", "DropoutExt", "Dropout2D", "Dropout3D", "DropoutGenMask", "DropoutDoMask"),
        ("it drops numbers at random, as in training", "call set_train(False) on the network before exporting it"),
    ),
    **dict.fromkeys(
        ("StandardNormal", "StandardLaplace", "UniformReal", "UniformInt", "RandomChoiceWithMask", "Randperm"),
        ("its result is random", "give the random numbers to the network as an input"),
    ),
    **dict.fromkeys(
        ("Print", "TensorSummary", "ScalarSummary", "ImageSummary", "HistogramSummary", "Assert"),
        ("it writes a message while the network runs", "export the network without it"),
    ),
    **dict.fromkeys(
        (
            "FakeQuantPerLayer",
            "FakeQuantPerChannel",
            "FakeQuantWithMinMaxVars",
            "FakeQuantWithMinMaxVarsPerChannel",
            "FakeQuantParam",
            "QuantDTypeCast",
            "Quant",
            "QuantV2",
            "Dequant",
            "AscendQuant",
            "AscendDequant",
            "WeightQuantBatchMatmul",
            "QuantBatchMatmul",
        ),
        ("the model is quantized, and its parameters are not read", _FLOAT),
    ),
    **dict.fromkeys(
        ("FlashAttentionScore", "PromptFlashAttention", "IncreFlashAttention", "ApplyRotaryPosEmb"),
        (
            "attention in one operator of an accelerator",
            "export the network with attention that is made of matrix products and a softmax",
        ),
    ),
    **dict.fromkeys(
        ("AllReduce", "AllGather", "ReduceScatter", "Send", "Receive", "NeighborExchange", "AlltoAll"),
        ("it exchanges numbers between devices", "merge the weights, and export the network for one device"),
    ),
    **dict.fromkeys(
        ("GRUV2", "DynamicRNN", "DynamicGRUV2", "CudnnGRU"),
        (
            "recurrent networks in one operator of an accelerator",
            "export the model with device_target CPU, which writes them with operators that are known",
        ),
    ),
    **dict.fromkeys(
        ("Custom", "CustomExt", "PyExecute", "PyInterpret", "PyFunc"),
        ("it runs a program of its own", "cut the network before it, and run the program on the outputs"),
    ),
}
"""Operator -> why it is not translated, and what to do."""
