"""The graph that a ``.nb`` file is written from."""

from __future__ import annotations

from converter_lite.formats.form import GraphForm

FUSED_OPERATORS = frozenset({"LayerNormalization", "Gelu", "HardSwish", "HardSigmoid"})
"""Operators that Paddle-Lite computes with one kernel and that exporters write as many."""

WORKING_OPSET = 20
"""Operator set in which all of them exist."""

NB_FORM = GraphForm(fused=FUSED_OPERATORS, opset=WORKING_OPSET)
"""How the writer wants the graph."""
