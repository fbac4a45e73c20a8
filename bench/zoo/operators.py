"""Operators of torchvision that the zoo exports, where torchvision was built for another PyTorch than the one installed."""

from __future__ import annotations

import torch
from torch import Tensor
from torch import library as registered

DECLARED = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def nms(boxes: Tensor, scores: Tensor, limit: float) -> Tensor:
    """Boxes that no better one overlaps by more than ``limit``, the best first."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    for index in scores.argsort(descending=True).tolist():
        corners = torch.maximum(boxes[index, :2], boxes[kept, :2]), torch.minimum(boxes[index, 2:], boxes[kept, 2:])
        common = (corners[1] - corners[0]).clamp(min=0).prod(-1)
        if not bool((common / (areas[index] + areas[kept] - common) > limit).any()):
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


def _are_there() -> bool:
    return True


def _define_missing() -> None:
    try:
        import torchvision

        return
    except RuntimeError:
        pass
    for name, declared in DECLARED.items():
        registered.define(f"torchvision::{name}", declared)
    registered.impl("torchvision::nms", "CPU", nms)
    import torchvision.extension

    torchvision.extension._has_ops = _are_there


_define_missing()
