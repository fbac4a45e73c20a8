"""Whether a network came nearer to the float one: only a gain that the held-out samples are enough to tell counts.

Learning is looked at several times, and each look draws anew how values are rounded: the best of several draws is nearer to the
float network on the samples that choose it, and not on others. Besides, what does not learn is fitted to all samples in the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.quantization.held_out import with_copies
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.score import Score, Scorer
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed

SURE, LIKELY = 2.0, 1.0
"""Standard errors that a gain exceeds: of the best of several looks, and of one of two ways to quantize."""


class Judge:
    """Compares networks with the float one on held-out samples and, where these are pictures, changed copies of them.

    Attributes:
        count: Held-out samples.

    Args:
        model: The float graph.
        held_out: The samples.
        seed: Of the copies.
        context: Runs the graphs.
    """

    def __init__(self, model: ir.Model, held_out: Sequence[Feed], seed: int, context: RunContext) -> None:
        self.count = len(held_out)
        self._scorer = Scorer(model, list(with_copies([dict(feed) for feed in held_out], seed)), context)

    def score(self, quantized: QuantizedModel) -> Score:
        """Of the graph that is written."""
        return self._scorer(qdq_model(QuantizedModel(quantized.model.clone(), quantized.plan, quantized.q_weights)))

    def is_gain(self, before: Score, after: Score, sure: float = SURE) -> bool:
        """Whether the squared error is smaller by more than chance, and the cosine no lower.

        The ratios of a sample and its copies are one observation; samples without an error on either side tell nothing.

        Args:
            before: Of the network as it was.
            after: Of the other one.
            sure: Standard errors that the mean logarithm of the ratios exceeds.
        """
        if not (after.noise < before.noise and after.cosine >= before.cosine):
            return False
        pairs = np.array([before.noises, after.noises]).T
        observed = [part[(part > 0).all(axis=1)] for part in (pairs[i :: self.count] for i in range(self.count))]
        gains = np.array([np.log(part[:, 0] / part[:, 1]).mean() for part in observed if len(part)])
        if len(gains) < 2 or not np.isfinite(gains).all():
            return True
        return bool(gains.mean() > sure * gains.std(ddof=1) / np.sqrt(len(gains)))
