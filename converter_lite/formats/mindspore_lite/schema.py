"""Field tables of the ``.ms`` FlatBuffer, for :mod:`converter_lite.formats.flatbuffer`.

Source: dumps of files of the 2.0.0 converter, and the runtime's reaction to changes.
"""

from __future__ import annotations

from converter_lite.formats.flatbuffer import Schema

IDENTIFIER = b"MSL2"
VERSION = "MindSpore Lite 2.0.0"
FMK_ONNX = 2

_OPERATOR_NAMES = """
NONE Abs Activation ActivationGrad Adam AddFusion AdderFusion AddGrad AddN All ApplyMomentum ArgMaxFusion
ArgMinFusion Assert Assign AssignAdd AudioSpectrogram AvgPoolFusion AvgPoolGrad BatchNorm BatchNormGrad
BatchToSpace BatchToSpaceND BiasAdd BinaryCrossEntropy BinaryCrossEntropyGrad BiasAddGrad BroadcastTo Cast Ceil
Clip Concat Attention Conv2DBackpropFilterFusion Conv2DBackpropInputFusion Conv2DFusion Conv2dTransposeFusion
Cos ConstantOfShape Crop CustomExtractFeatures CustomNormalize CustomPredict DeConv2DGradFilter Depend
DepthToSpace DetectionPostProcess DivFusion DivGrad Dropout DropoutGrad Elu Eltwise Equal EmbeddingLookupFusion
ExpFusion ExpandDims FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel FftReal FftImag Flatten
FlattenGrad Floor FloorDiv FloorMod Fill FullConnection FusedBatchNorm Gather GatherNd Greater GreaterEqual
HashtableLookup InstanceNorm LayerNormFusion LeakyRelu Less LessEqual Log LogGrad LogicalAnd LogicalNot
LogicalOr LpNormalization LRN LshProjection LSTM L2NormalizeFusion MatMulFusion Maximum MaximumGrad
MaxPoolFusion MaxPoolGrad SwitchLayer Mfcc Minimum MinimumGrad Mod MulFusion MulGrad Neg NegGrad NotEqual
NonMaxSuppression OneHot OnesLike PadFusion PartialFusion PowerGrad PowFusion PriorBox PReLUFusion
QuantDTypeCast Rank Range Reciprocal RealDiv ReduceFusion Reshape Resize ReverseSequence ReverseV2 Rfft
ROIPooling Round Rsqrt ScaleFusion ScatterNd SGD Shape SigmoidCrossEntropyWithLogits
SigmoidCrossEntropyWithLogitsGrad Sin SkipGram SliceFusion SmoothL1Loss SmoothL1LossGrad Softmax
SoftmaxCrossEntropyWithLogits SpaceToBatch SpaceToBatchND SpaceToDepth SparseSoftmaxCrossEntropyWithLogits
SparseToDense Split Sqrt Squeeze Square SquaredDifference Stack StridedSlice SubFusion SubGrad Switch
TensorListFromTensor TensorListGetItem TensorListReserve TensorListSetItem TensorListStack TileFusion TopKFusion
Transpose Unique UnsortedSegmentSum Unsqueeze Unstack LSTMGrad Where ZerosLike Select ScatterNdUpdate GRU
NonZero InvertPermutation Size RandomStandardNormal CropAndResize Erf StridedSliceGrad IsFinite LinSpace
UniformReal AbsGrad RsqrtGrad SqrtGrad LayerNormGrad ResizeGrad Splice LogSoftmax Call Custom CumSum
SplitWithOverlap GenOP RaggedRange GLU TensorArray TensorArrayRead TensorArrayWrite Affine AllGather
ReduceScatter DynamicQuant LSTMGradData LSTMGradWeight RandomNormal NLLLoss NLLLossGrad FormatTranspose GatherD
GroupNormFusion Log1p TensorScatterAdd SparseFillEmptyRows SparseReshape SparseSegmentSum ScatterElements Triu
Tril AdamWeightDecay FillV2
"""

OPERATORS = tuple(_OPERATOR_NAMES.split())
"""Operator names; the index is the union type byte. The list is only ever appended to."""

_POOL = (
    "kernel_size:longs strides:longs pad:longs pad_mode:byte round_mode:byte format:int global:bool "
    "activation_type:byte"
)

_TABLES: dict[str, str] = {
    "MetaGraph": "name:string version:string fmkType:int inputIndex:uints outputIndex:uints mempoolSize:uint "
    "nodes:[CNode] allTensors:[Tensor] subGraph:[SubGraph] obfuscate:bool obfMetaData:bytes",
    "SubGraph": "name:string inputIndices:uints outputIndices:uints nodeIndices:uints tensorIndices:uints",
    "Tensor": "nodeType:int dataType:int dims:ints format:int refCount:int offset:int data:bytes quantParams:{QuantParam} "
    "quantClusters:floats name:string enableHuffmanCode:bool weightQuantCompressType:int externalData:[ExternalData]",
    "QuantParam": "scale:double=1 zeroPoint:int min:double max:double narrowRange:bool=1 numBits:int=8 inited:bool "
    "varCorr:float=1 meanCorr:float dstDtype:int=32 roundType:int=1 multiplier:int=1",
    "CNode": "name:string nodeType:int primitive:Primitive inputIndex:uints outputIndex:uints quantType:int "
    "deviceType:int=-1",
    "Primitive": "value:union",
    "ExternalData": "checkSum:string location:string offset:long length:long=-1",
    "Vec": "data:longs",
    "Vec2D": "data:[Vec]",
    "Attribute": "name:string data:bytes",
    "Conv2DFusion": "format:int kernel_size:longs stride:longs dilation:longs pad_mode:byte pad_list:longs mode:long "
    "group:long in_channel:long out_channel:long activation_type:byte",
    "Conv2dTransposeFusion": "format:int kernel_size:longs stride:longs dilation:longs pad_mode:byte pad:longs "
    "pad_list:longs mode:long group:long in_channel:long out_channel:long activation_type:byte output_paddings:longs",
    "MatMulFusion": "transpose_a:bool transpose_b:bool activation_type:byte",
    "FullConnection": "has_bias:bool use_axis:bool axis:long activation_type:byte",
    "AvgPoolFusion": _POOL,
    "MaxPoolFusion": _POOL,
    "Activation": "activation_type:byte alpha:float min_val:float max_val:float approximate:bool",
    "AddFusion": "activation_type:byte",
    "SubFusion": "activation_type:byte",
    "MulFusion": "activation_type:byte",
    "DivFusion": "activation_type:byte",
    "Eltwise": "mode:byte",
    "BiasAdd": "format:int",
    "ScaleFusion": "axis:long activation_type:byte",
    "BatchNorm": "epsilon:float format:int is_training:bool",
    "FusedBatchNorm": "epsilon:float=0.0001 momentum:float=0.9 mode:long",
    "InstanceNorm": "epsilon:float",
    "LayerNormFusion": "begin_norm_axis:long epsilon:float=0.00001 elementwise_affine:bool begin_params_axis:long",
    "GroupNormFusion": "num_groups:long epsilon:float=1e-5 affine:bool=1",
    "LRN": "depth_radius:long bias:float alpha:float beta:float norm_region:string",
    "L2NormalizeFusion": "axis:longs epsilon:float activation_type:byte",
    "Concat": "axis:long",
    "Split": "output_num:long size_splits:longs axis:long",
    "Stack": "axis:long",
    "Unstack": "axis:long",
    "Flatten": "axis:long=1",
    "Squeeze": "axis:longs",
    "Unsqueeze": "axis:longs",
    "BroadcastTo": "shape:longs",
    "TileFusion": "dims:longs",
    "PadFusion": "paddings:Vec2D padding_mode:byte constant_value:float",
    "Resize": "format:int method:byte new_height:long new_width:long preserve_aspect_ratio:bool "
    "coordinate_transform_mode:byte cubic_coeff:float exclude_outside:long extrapolation_value:float nearest_mode:byte",
    "DepthToSpace": "block_size:long format:int mode:string",
    "SpaceToDepth": "block_size:long format:int",
    "StridedSlice": "begin_mask:long end_mask:long ellipsis_mask:long new_axis_mask:long shrink_axis_mask:long",
    "SliceFusion": "axes:longs",
    "Crop": "axis:long offsets:longs",
    "Softmax": "axis:longs",
    "LogSoftmax": "axis:long",
    "ReduceFusion": "keep_dims:bool mode:byte reduce_to_end:bool coeff:float",
    "ArgMaxFusion": "axis:long top_k:long=1 keep_dims:bool out_max_value:bool",
    "ArgMinFusion": "axis:long top_k:long keep_dims:bool out_max_value:bool",
    "TopKFusion": "sorted:bool=1 axis:long largest:long",
    "CumSum": "exclusive:bool reverse:bool",
    "ExpFusion": "base:float=-1 scale:float=1 shift:float",
    "PowFusion": "scale:float=1 shift:float",
    "LeakyRelu": "negative_slope:float",
    "Elu": "alpha:float",
    "PReLUFusion": "channel_shared:bool",
    "Clip": "max:float min:float",
    "OneHot": "axis:long",
    "Range": "d_type:long start:long limit:long delta:long=1",
    "ConstantOfShape": "data_type:long value:floats",
    "LSTM": "bidirectional:bool has_bias:bool input_size:long hidden_size:long num_layers:long num_directions:long "
    "dropout:float zoneout_cell:float zoneout_hidden:float proj_size:long",
    "GRU": "bidirectional:bool",
    "QuantDTypeCast": "src_t:long dst_t:long axis:long",
    "DynamicQuant": "symmetric:bool dst_type:long=32 activation_channel:bool prefer_axis:long transpose:bool "
    "prefer_axes:ints",
    "Custom": "type:string attr:[Attribute]",
}

SCHEMA = Schema(
    _TABLES, identifier=IDENTIFIER, unions={"union": OPERATORS}, byte_alignment=16, replaces=True, shared=("Primitive",)
)
"""The codec of these files."""
