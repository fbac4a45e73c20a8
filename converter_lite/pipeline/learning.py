"""What a network learns from the float one, by a package that needs an extra: it is imported when something learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from converter_lite.quantization import held_out
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.settings import Learning
from converter_lite.runtime.context import RunContext

if TYPE_CHECKING:
    from converter_lite.data.remember import RememberingDataset


def check(model: ir.Model) -> str | None:
    """Refuse a float graph that cannot learn, before anything is done for it; what to say of one that learns in part.

    Raises:
        ModelError: There are no gradients of an operator in front of all layers; the node is named.
    """
    from converter_lite.learning.front import front_of

    front = front_of(model)
    if front.first is None:
        return None
    where = f"{front.first.op_type} (node {front.first.name}), which has no gradients"
    return f"what learns ends in front of {where}: {front.layers} of {front.all_layers} layers with weights"


def learn(
    dataset: RememberingDataset,
    context: RunContext,
    starts: Sequence[QuantizedModel],
    model: ir.Model,
    wanted: Learning,
) -> QuantizedModel:
    """What a network learns from the first samples; arguments as of :func:`~converter_lite.learning.rounding.learn_rounding`."""
    from converter_lite.learning.rounding import learn_rounding

    return learn_rounding(starts, model, dataset.head(held_out.SAMPLES), wanted, context)
