"""What the original calls its fusions (``[registry] fusion_blacklists``), and which of our rules do the same."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OUR_RULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ConvBatchNormFusion": ("fold_batchnorm",),
        "ConvScaleFusion": ("fold_scale_shift",),
        "MatMulScaleFusion": ("fold_scale_shift",),
        "ConvBiasaddFusion": ("fold_scale_shift",),
        "ScaleBaseFusion": ("fold_scale_shift",),
        "MatMulMulFusion": ("fold_scale_shift",),
        "MulAddFusion": ("fold_scale_shift",),
        "ScaleScaleFusion": ("fold_scale_shift",),
        "MatMulAddFusion": ("fuse_gemm",),
        "FullconnectedAddFusion": ("fuse_gemm",),
        "FullConnectedFusion": ("fuse_gemm",),
        "TransposeMatMulFusion": ("fuse_gemm",),
        "ConvPadFusion": ("fold_pad",),
        "GeLUFusion": ("fuse_gelu",),
        "OnnxGeLUFusion": ("fuse_gelu",),
        "TfGeLUFusion": ("fuse_gelu",),
        "NormFusion": ("fuse_layer_norm",),
        "OnnxLayerNormFusion": ("fuse_layer_norm",),
        "OnnxLayerNormFusion2": ("fuse_layer_norm",),
        "TfNormFusion": ("fuse_layer_norm",),
        "HardSwishFusion": ("fuse_hard_swish",),
        "ConstFoldPass": ("fold_constants",),
        "ConstFoldWithInferShape": ("fold_constants", "fold_shapes"),
        "remove_redundant_op_pass": ("remove_noops",),
        "RemoveUnusedAddNodePass": ("remove_noops",),
        "ReshapeReshapeFusion": ("simplify_reshape",),
        "SqueezeExpandDimsFusion": ("merge_unsqueezes",),
        "DeleteRedundantTranspose": ("merge_transposes",),
        "TransposeFusion": ("merge_transposes",),
    }
)
"""Fusion of the original -> rules of :mod:`converter_lite.passes.pipeline` that do what it does."""

WITHOUT_COUNTERPART = frozenset(
    {"ActivationFusion", "AddActivationFusion", "AddConcatActivationFusion", "AffineActivationFusion", "AffineFusion"}
    | {"BatchMatMulFusion", "BatchNormToScaleFusion", "CastFusion", "ConcatConcatFusion", "ConvActivationFusion"}
    | {"ConvConvFusion", "ConvTransformFusion", "ConvTupleActivationFusion", "ConvTupleGetItemFusion"}
    | {"DecoderLayerFusion", "EncoderLayerFusion", "ExpandDimsReshapeFusion", "FFNFusion", "FlashAttentionFusion"}
    | {"GeGluV2Fusion", "GroupNormFusion", "GroupNormSiluFusion", "HorizontalFusion", "LayerNormV3Fusion"}
    | {"LeakyReluFusion", "MatMulActivationFusion", "MatMulAllReduceFusion", "MulActivationFusion", "MulReduceFusion"}
    | {"MultiHeadAttentionFusion", "PReluFusion", "QuantDtypeCastFusion", "ReduceStackFusion", "ReshapeReduceFusion"}
    | {"ReshapeShapeFusion", "ReshapeTransposeFusion", "ResizeFusion", "ScaleActivationFusion", "SigmoidMulFusion"}
    | {"SqueezeFusion", "StridedSliceFusionInHorizon", "TensorDotFusion", "TfBidirectionGruFusion", "TfLstmCellFusion"}
    | {"TfliteLstmCellFusion", "TileMatMulFusion", "TransposeGatherFusion", "FuseAddAndLayernorm"}
)
"""Fusions of the original that no rule here does."""
