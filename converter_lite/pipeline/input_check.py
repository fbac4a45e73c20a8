"""The check of a conversion's samples, beside the work that they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import onnx_ir as ir

from converter_lite.config.settings import QuantizationConfig
from converter_lite.errors import UsageError
from converter_lite.execution.background import BackgroundCall
from converter_lite.log import Log
from converter_lite.pipeline.request import PROOF_SAMPLES, ConvertRequest
from converter_lite.runtime.context import RunContext

if TYPE_CHECKING:
    from converter_lite.data.remember import RememberingDataset

Settle = Callable[[], None]
"""Waits for the end of a check, and says what it found; calling it again changes nothing."""


@dataclass(frozen=True, slots=True)
class InputCheck:
    """Doubts about the prepared samples, and pictures of them.

    Attributes:
        request: May ask for the pictures, and has samples of its own.
        config: Says how samples are prepared.
        context: Runs the model; its log receives the doubts.
    """

    request: ConvertRequest
    config: QuantizationConfig | None
    context: RunContext

    def begin(self, model: ir.Model | None, dataset: RememberingDataset | None, *, is_full: bool) -> Settle:
        """Check the first samples, in a thread where other work does not need the answer.

        Args:
            model: What is quantized, not changed; ``None``: nothing.
            dataset: The samples.
            is_full: Whether all samples run anyway, so that the check may look at more of them.

        Raises:
            UsageError: There is nothing to show.
        """
        log = self.context.log
        if dataset is not None and self.config is not None and self.config.mixed_bit_weight_quant_param.use_cv_data:
            where = self.config.location("mixed_bit_weight_quant_param", "use_cv_data")
            log.warning(f"{where}: has no effect: the search measures on the calibration samples")
        preview = self.request.preview
        if dataset is None:
            if preview is not None:
                raise UsageError("there are no samples to show", where=f"--preview={preview}", hint="name some")
            return _nothing
        if model is None:
            return _nothing
        from converter_lite.preprocessing.check_inputs import check_inputs

        are_own = self.config is not None and self.request.calibration_data is None
        data = self.config.data_preprocess_param if are_own and self.config is not None else None
        samples = None if is_full else PROOF_SAMPLES
        check = partial(check_inputs, model, dataset, data, samples=samples, preview=preview)
        if not (is_full and dataset.is_of_files) or preview is not None or self.context.threads == 1:
            check(context=self.context)
            return _nothing
        found = Log()
        under_way = BackgroundCall(partial(check, context=replace(self.context, log=found)))

        def settle() -> None:
            under_way.result()
            log.take(found)

        return settle


def _nothing() -> None:
    """There is nothing to wait for."""
