"""DSP: every float node in integers, asymmetric uint8 activations, per-tensor weights unless the file asks otherwise.

Source: behaviour of the original for DSP (every node quantized; only Conv and ConvTranspose per channel); uint8 is the
convention of Q/DQ models for DSP execution providers.
"""

from __future__ import annotations

from converter_lite.kernels.params import QuantSpec
from converter_lite.targets.cpu import SYMMETRIC_WEIGHT
from converter_lite.targets.operators import OPERATORS
from converter_lite.targets.spec import TargetSpec

DSP = TargetSpec(
    name="DSP",
    activation=QuantSpec(bits=8, signed=False),
    weight=SYMMETRIC_WEIGHT,
    per_channel=False,
    per_channel_operators=frozenset({"Conv", "ConvTranspose"}),
    quantize_bias=True,
    integer=frozenset(OPERATORS),
    only_between_weighted=False,
    note="every operator of the catalogue",
)
