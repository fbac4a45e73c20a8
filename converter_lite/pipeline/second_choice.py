"""A second try for a network that missed the default quality gate: what costs the most accuracy is left in float.

An accuracy that the user asks for (``--minCosine``, ``target_cosine``, ``target_error``) is a demand on the file as it is
configured. Where nothing was asked for, a file that works with a few layers in float, each of them named, is worth more than a
refusal.
"""

from __future__ import annotations

from dataclasses import replace

from converter_lite.log import Log, counted
from converter_lite.pipeline.prove import Missed
from converter_lite.quantization import fallback
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.settings import Goal

SHARE = 4
"""One of so many quantized nodes may be left in float."""


def second_choice(missed: Missed | None, choice: Choice | None, quantized: QuantizedModel, log: Log) -> Choice | None:
    """The choice with a goal: half of the error that the gate allows, because the gate looks at other samples.

    Args:
        missed: What the file missed, if it did.
        choice: How it was quantized, if it was.
        quantized: What was written.
        log: Receives a warning.

    Returns:
        ``None`` where there is nothing to try: the gate holds, the network was searched for an accuracy already, the device
        has integers only, or the nodes are too few for a part of them to stay float.
    """
    if missed is None or choice is None:
        return None
    nodes = len(fallback.candidates(quantized)) // SHARE
    if choice.measures or not choice.target.float_small_numbers or not nodes:
        return None
    log.warning(
        f"{missed}: the layers that cost the most accuracy are left out, {counted(nodes, 'node')} at most "
        "(--minCosine=X refuses what is below X instead)"
    )
    return replace(choice, goal=Goal(cosine=(1.0 + missed.gate) / 2, max_nodes=nodes))
