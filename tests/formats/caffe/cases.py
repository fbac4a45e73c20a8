"""Every layer in every variant."""

from __future__ import annotations

from tests.formats.caffe.case import Case
from tests.formats.caffe.cases_shapes import SHAPES
from tests.formats.caffe.cases_values import ACTIVATIONS, ARITHMETIC, LINEAR, NORMALIZATIONS
from tests.formats.caffe.cases_windows import CONVOLUTIONS, DECONVOLUTIONS, POOLINGS

CASES: dict[str, Case] = {
    f"{family}: {name}": case
    for family, cases in {
        "Convolution": CONVOLUTIONS,
        "Deconvolution": DECONVOLUTIONS,
        "Pooling": POOLINGS,
        "linear": LINEAR,
        "activation": ACTIVATIONS,
        "normalization": NORMALIZATIONS,
        "arithmetic": ARITHMETIC,
        "shape": SHAPES,
    }.items()
    for name, case in cases.items()
}
