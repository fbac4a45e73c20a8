"""Operators, or variants of them, that a runtime lacks, spelled out with others: the opposite of fusions.

:data:`SPELLED_OUT` has the rule for each operator; a format names those that it needs
(:class:`~converter_lite.formats.requirements.GraphRequirements`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from converter_lite.passes.rewrite import Pass
from converter_lite.passes.spelled_out.choices import spell_out_choices, spell_out_computed_bounds
from converter_lite.passes.spelled_out.constants import spell_out_constant_outputs
from converter_lite.passes.spelled_out.dilated import spell_out_dilated_pools
from converter_lite.passes.spelled_out.einsum import spell_out_einsum
from converter_lite.passes.spelled_out.filters import spell_out_computed_filters
from converter_lite.passes.spelled_out.functions import (
    spell_out_celu,
    spell_out_log_softmax,
    spell_out_log_sum_exp,
    spell_out_selu,
)
from converter_lite.passes.spelled_out.grids import (
    spell_out_affine_grid,
    spell_out_grid_sample,
    spell_out_resampling,
)
from converter_lite.passes.spelled_out.images import (
    spell_out_blocks,
    spell_out_grouped_deconvolution,
    spell_out_long_rows,
    spell_out_rows,
)
from converter_lite.passes.spelled_out.indexing import (
    spell_out_batched_gather,
    spell_out_gather_elements,
    spell_out_negative_classes,
    spell_out_negative_indices,
    spell_out_reversal,
)
from converter_lite.passes.spelled_out.local_response import spell_out_local_response
from converter_lite.passes.spelled_out.logic import (
    spell_out_is_infinite,
    spell_out_is_nan,
    spell_out_round,
    spell_out_sign,
)
from converter_lite.passes.spelled_out.loops import spell_out_loops
from converter_lite.passes.spelled_out.many_axes import spell_out_deep_softmax, spell_out_many_axes
from converter_lite.passes.spelled_out.masks import spell_out_empty_rows, spell_out_infinite_equals
from converter_lite.passes.spelled_out.maxima import spell_out_places_of_maxima, spell_out_unpooling
from converter_lite.passes.spelled_out.padding import spell_out_integer_padding, spell_out_padding
from converter_lite.passes.spelled_out.products import spell_out_turned_gemm, spell_out_vector_products
from converter_lite.passes.spelled_out.recurrent import spell_out_forms, spell_out_recurrent
from converter_lite.passes.spelled_out.resizing import spell_out_fractions, spell_out_resize
from converter_lite.passes.spelled_out.scattering import spell_out_put_elements, spell_out_scatter
from converter_lite.passes.spelled_out.sequences import spell_out_sequences
from converter_lite.passes.spelled_out.simple import spell_out_repeated_dividends, spell_out_single_slopes
from converter_lite.passes.spelled_out.spectra import spell_out_dft, spell_out_stft
from converter_lite.passes.spelled_out.triangles import spell_out_triangles
from converter_lite.passes.spelled_out.trigonometry import spell_out_functions, spell_out_tan
from converter_lite.passes.spelled_out.truths import spell_out_bits, spell_out_moved_bytes, spell_out_moved_truths
from converter_lite.passes.spelled_out.volumes import spell_out_deep_pools, spell_out_volumes
from converter_lite.passes.spelled_out.whole_numbers import spell_out_whole_numbers

SPELLED_OUT: Mapping[str, Pass] = MappingProxyType(
    {
        "BitwiseAnd": spell_out_bits,
        "Concat of truth values": spell_out_moved_truths,  # before the rules that take numbers only
        "Abs of whole numbers": spell_out_whole_numbers,
        "AffineGrid": spell_out_affine_grid,
        "Atan": spell_out_functions,
        "Celu": spell_out_celu,
        "Clip": spell_out_computed_bounds,
        "Col2Im": spell_out_blocks,
        "ConcatFromSequence": spell_out_sequences,
        "Constant": spell_out_constant_outputs,
        "Conv": spell_out_volumes,
        "Conv with computed filters": spell_out_computed_filters,
        "ConvTranspose": spell_out_grouped_deconvolution,
        "DFT": spell_out_dft,
        "Div of repeated elements": spell_out_repeated_dividends,
        "Einsum": spell_out_einsum,
        "Equal": spell_out_infinite_equals,
        "GRU": spell_out_recurrent,
        "Gather": spell_out_negative_indices,
        "GatherElements": spell_out_gather_elements,
        "GatherND": spell_out_batched_gather,
        "OneHot": spell_out_negative_classes,
        "Gemm": spell_out_turned_gemm,
        "GridSample": spell_out_grid_sample,
        "GridSample of another size": spell_out_resampling,
        "If": spell_out_choices,
        "IsInf": spell_out_is_infinite,
        "IsNaN": spell_out_is_nan,
        "LRN": spell_out_local_response,
        "Recurrent layers of other forms": spell_out_forms,
        "Loop": spell_out_loops,
        "LogSoftmax": spell_out_log_softmax,
        "MatMul": spell_out_vector_products,
        "MaxPool with dilations": spell_out_dilated_pools,  # before those that read windows
        "MaxPool": spell_out_rows,
        "MaxPool of volumes": spell_out_deep_pools,
        "MaxPool with places": spell_out_places_of_maxima,
        "MaxUnpool": spell_out_unpooling,
        "PRelu of one slope": spell_out_single_slopes,
        "Pad": spell_out_padding,
        "Pad of whole numbers": spell_out_integer_padding,
        "ReduceLogSumExp": spell_out_log_sum_exp,
        "Resize": spell_out_resize,
        "Resize by fractions": spell_out_fractions,
        "ReverseSequence": spell_out_reversal,
        "Round": spell_out_round,
        "STFT": spell_out_stft,
        "Conv of long rows": spell_out_long_rows,  # after STFT, which becomes one
        "ScatterND": spell_out_scatter,
        "ScatterND to computed places": spell_out_put_elements,
        "Selu": spell_out_selu,
        "Sign": spell_out_sign,
        "Softmax": spell_out_empty_rows,
        "Softmax of many axes": spell_out_deep_softmax,
        "Tan": spell_out_tan,
        "Transpose of bytes": spell_out_moved_bytes,
        "Transpose of many axes": spell_out_many_axes,
        "Trilu": spell_out_triangles,
        "Expand of truth values": spell_out_moved_truths,  # the last one: other rules move truth values, too
    }
)
"""Operator -> rule for it and for its relatives: LSTM goes with GRU, ScatterElements with ScatterND, other inverse and all
hyperbolic functions with Atan, all pooling and ConvTranspose over one dimension with MaxPool, all that moves truth values with
Concat and Expand, other operators on bits with BitwiseAnd, bounds of whole numbers with Abs."""
