"""Field tables of the TensorFlow Lite FlatBuffer, for :mod:`converter_lite.formats.flatbuffer`.

Source: the public schema of the format (``schema.fbs`` of TensorFlow and LiteRT, versions 3 to 3c). Tables without fields are not
listed.
"""

from __future__ import annotations

from converter_lite.formats.flatbuffer import Schema

IDENTIFIER = b"TFL3"
VERSION = 3

_OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM
MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS
SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN
EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2
GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG
SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT
UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE
MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5
SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO
RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE
RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD
STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE
STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE
STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE
STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE
STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""

OPERATORS = tuple(_OPERATORS.split())
"""Names of the builtin operators; the index is the code. The list is only ever appended to."""

CUSTOM = "CUSTOM"
"""The operator whose name is a text."""

_OPTIONS = """
NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions SVDFOptions
RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions L2NormOptions
LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions ReshapeOptions SkipGramOptions
SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions PadOptions GatherOptions BatchToSpaceNDOptions
SpaceToBatchNDOptions TransposeOptions ReducerOptions SubOptions DivOptions SqueezeOptions SequenceRNNOptions
StridedSliceOptions ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions CastOptions DequantizeOptions
MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options GreaterOptions GreaterEqualOptions
LessEqualOptions SelectOptions SliceOptions TransposeConvOptions SparseToDenseOptions TileOptions ExpandDimsOptions
EqualOptions NotEqualOptions ShapeOptions PowOptions ArgMinOptions FakeQuantOptions PackOptions LogicalOrOptions
OneHotOptions LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions SquareOptions ZerosLikeOptions
FillOptions BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions UnidirectionalSequenceLSTMOptions
FloorModOptions RangeOptions ResizeNearestNeighborOptions LeakyReluOptions SquaredDifferenceOptions MirrorPadOptions
AbsOptions SplitVOptions UniqueOptions ReverseV2Options AddNOptions GatherNdOptions CosOptions WhereOptions
RankOptions ReverseSequenceOptions MatrixDiagOptions QuantizeOptions MatrixSetDiagOptions HardSwishOptions IfOptions
WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options NonMaxSuppressionV5Options ScatterNdOptions
SelectV2Options DensifyOptions SegmentSumOptions BatchMatMulOptions CumsumOptions CallOnceOptions BroadcastToOptions
Rfft2dOptions Conv3DOptions HashtableOptions HashtableFindOptions HashtableImportOptions HashtableSizeOptions
VarHandleOptions ReadVariableOptions AssignVariableOptions RandomOptions BucketizeOptions GeluOptions
DynamicUpdateSliceOptions UnsortedSegmentProdOptions UnsortedSegmentMaxOptions UnsortedSegmentMinOptions
UnsortedSegmentSumOptions ATan2Options SignOptions BitcastOptions BitwiseXorOptions RightShiftOptions
"""

_OPTIONS_2 = """
NONE StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions StablehloConvolutionOptions
StablehloCustomCallOptions StablehloReduceOptions StablehloScatterOptions StablehloCompareOptions
StablehloDynamicSliceOptions StablehloPadOptions StablehloIotaOptions StablehloDotGeneralOptions
StablehloReduceWindowOptions StablehloSortOptions StablehloWhileOptions StablehloGatherOptions
StablehloTransposeOptions DilateOptions StablehloRngBitGeneratorOptions ReduceWindowOptions StableHLOCompositeOptions
StablehloShiftLeftOptions StablehloCaseOptions
"""

_UNIONS = {
    "BuiltinOptions": _OPTIONS.split(),
    "BuiltinOptions2": _OPTIONS_2.split(),
    "QuantizationDetails": ["NONE", "CustomQuantization", "BlockwiseQuantization", "MultiAxisQuantization"],
    "SparseIndexVector": ["NONE", "Int32Vector", "Uint16Vector", "Uint8Vector"],
}

_ELEMENTWISE = "activation:byte pot_scale_int16:bool=1"
_WINDOWS = "padding:byte stride_w:int stride_h:int activation:byte dilation_w:int=1 dilation_h:int=1"

_TABLES: dict[str, str] = {
    "Model": "version:uint operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string buffers:[Buffer] - "
    "metadata:[Metadata] signature_defs:[SignatureDef]",
    "OperatorCode": "deprecated_builtin_code:byte custom_code:string version:int=1 builtin_code:int",
    "SubGraph": "tensors:[Tensor] inputs:ints outputs:ints operators:[Operator] name:string",
    "Tensor": "shape:ints type:byte buffer:uint name:string quantization:QuantizationParameters is_variable:bool "
    "sparsity:SparsityParameters shape_signature:ints has_rank:bool",
    "QuantizationParameters": "- - scale:floats zero_point:longs details:<QuantizationDetails> quantized_dimension:int",
    "SparsityParameters": "traversal_order:ints block_map:ints dim_metadata:[DimensionMetadata]",
    "DimensionMetadata": "format:byte dense_size:int array_segments:<SparseIndexVector> array_indices:<SparseIndexVector>",
    "Int32Vector": "values:ints",
    "Uint16Vector": "values:ushorts",
    "Uint8Vector": "values:ubytes",
    "Operator": "opcode_index:uint inputs:ints outputs:ints options:<BuiltinOptions> custom_options:bytes - - "
    "intermediates:ints custom_offset:long custom_size:long options_2:<BuiltinOptions2>",
    "Buffer": "data:bytes offset:long size:long",
    "Metadata": "name:string buffer:uint",
    "TensorMap": "name:string tensor_index:uint",
    "SignatureDef": "inputs:[TensorMap] outputs:[TensorMap] signature_key:string - subgraph_index:uint",
    "Conv2DOptions": _WINDOWS,
    "DepthwiseConv2DOptions": "padding:byte stride_w:int stride_h:int depth_multiplier:int activation:byte "
    "dilation_w:int=1 dilation_h:int=1",
    "Conv3DOptions": "padding:byte stride_d:int stride_w:int stride_h:int activation:byte dilation_d:int=1 "
    "dilation_w:int=1 dilation_h:int=1",
    "TransposeConvOptions": "padding:byte stride_w:int stride_h:int activation:byte",
    "Pool2DOptions": "padding:byte stride_w:int stride_h:int filter_w:int filter_h:int activation:byte",
    "FullyConnectedOptions": "activation:byte weights_format:byte keep_num_dims:bool asymmetric_inputs:bool",
    "BatchMatMulOptions": "adj_x:bool adj_y:bool asymmetric_inputs:bool",
    "SVDFOptions": "rank:int activation:byte asymmetric_inputs:bool",
    "RNNOptions": "activation:byte asymmetric_inputs:bool",
    "SequenceRNNOptions": "time_major:bool activation:byte asymmetric_inputs:bool",
    "BidirectionalSequenceRNNOptions": "time_major:bool activation:byte merge_outputs:bool asymmetric_inputs:bool",
    "LSTMOptions": "activation:byte cell_clip:float proj_clip:float kernel_type:byte asymmetric_inputs:bool",
    "UnidirectionalSequenceLSTMOptions": "activation:byte cell_clip:float proj_clip:float time_major:bool "
    "asymmetric_inputs:bool diagonal_recurrent_tensors:bool",
    "BidirectionalSequenceLSTMOptions": "activation:byte cell_clip:float proj_clip:float merge_outputs:bool "
    "time_major:bool=1 asymmetric_inputs:bool",
    "SoftmaxOptions": "beta:float",
    "ConcatenationOptions": "axis:int activation:byte",
    "AddOptions": _ELEMENTWISE,
    "SubOptions": _ELEMENTWISE,
    "MulOptions": "activation:byte",
    "DivOptions": "activation:byte",
    "L2NormOptions": "activation:byte",
    "LocalResponseNormalizationOptions": "radius:int bias:float alpha:float beta:float",
    "ResizeBilinearOptions": "- - align_corners:bool half_pixel_centers:bool",
    "ResizeNearestNeighborOptions": "align_corners:bool half_pixel_centers:bool",
    "CallOptions": "subgraph:uint",
    "CallOnceOptions": "init_subgraph_index:int",
    "VarHandleOptions": "container:string shared_name:string",
    "IfOptions": "then_subgraph_index:int else_subgraph_index:int",
    "WhileOptions": "cond_subgraph_index:int body_subgraph_index:int",
    "ReshapeOptions": "new_shape:ints",
    "SpaceToDepthOptions": "block_size:int",
    "DepthToSpaceOptions": "block_size:int",
    "GatherOptions": "axis:int batch_dims:int",
    "ReducerOptions": "keep_dims:bool",
    "SqueezeOptions": "squeeze_dims:ints",
    "SplitOptions": "num_splits:int",
    "SplitVOptions": "num_splits:int",
    "StridedSliceOptions": "begin_mask:int end_mask:int ellipsis_mask:int new_axis_mask:int shrink_axis_mask:int offset:bool",
    "CastOptions": "in_data_type:byte out_data_type:byte",
    "ArgMaxOptions": "output_type:byte",
    "ArgMinOptions": "output_type:byte",
    "ShapeOptions": "out_type:byte",
    "FakeQuantOptions": "min:float max:float num_bits:int narrow_range:bool",
    "PackOptions": "values_count:int axis:int",
    "UnpackOptions": "num:int axis:int",
    "OneHotOptions": "axis:int",
    "LeakyReluOptions": "alpha:float",
    "MirrorPadOptions": "mode:byte",
    "UniqueOptions": "idx_out_type:byte=2",
    "ReverseSequenceOptions": "seq_dim:int batch_dim:int",
    "CumsumOptions": "exclusive:bool reverse:bool",
    "BucketizeOptions": "boundaries:floats",
    "GeluOptions": "approximate:bool",
    "StableHLOCompositeOptions": "name:string decomposition_subgraph_index:int composite_attributes:bytes - version:int",
}

SCHEMA = Schema(_TABLES, identifier=IDENTIFIER, unions=_UNIONS, byte_alignment=16, replaces=True)
"""The codec of these files."""
