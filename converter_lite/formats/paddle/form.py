"""The graph that a ``.nb`` file is written from."""

from __future__ import annotations

from converter_lite.formats.requirements import DEVICE_FUSED, DEVICE_OPSET, GraphForm

NB_FORM = GraphForm(fused=DEVICE_FUSED, opset=DEVICE_OPSET)
"""How the writer wants the graph."""
