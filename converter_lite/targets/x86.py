"""x86 through oneDNN (PaddleSlim's table: conv2d, depthwise_conv2d, mul, matmul; per-tensor abs-max weights)."""

from __future__ import annotations

from dataclasses import replace

from converter_lite.targets.arm import ARM

X86 = replace(
    ARM,
    name="X86",
    per_channel=False,
    per_channel_operators=frozenset(),
    pairs_saturate=True,
    note="PaddleSlim FAQ, x86 row",
)
