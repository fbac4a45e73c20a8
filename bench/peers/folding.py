"""Preparing a model for a peer that does not do it itself."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort


def fold_constants(model: Path, to: Path) -> None:
    """Write the model as the runtime sees it after its basic optimizations: constants and BatchNormalization folded."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(to)
    ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
